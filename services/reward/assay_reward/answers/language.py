"""Which language a text is in, and which script: without a network, and the same every time."""

from functools import lru_cache
from typing import Any

import regex

#: Those of some script; a few, such as the Japanese prolongation mark, are common to several.
_LETTER = regex.compile(r"(?!\p{Script=Common})\p{L}")


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """py3langid's model of 97 languages; loading it takes about a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


@lru_cache(maxsize=1)
def known_languages() -> frozenset[str]:
    """The codes (ISO 639-1) that `language_of` can give."""
    return frozenset(str(code) for code in _identifier().nb_classes)


def language_of(text: str) -> str:
    """The most likely language. A guess for a few words; sure from a sentence or two on."""
    code, _ = _identifier().classify(text)
    return str(code)


@lru_cache(maxsize=256)
def _script(name: str) -> "regex.Pattern[str]":
    return regex.compile(rf"\p{{Script={name}}}")


def is_script(name: str) -> bool:
    """Whether Unicode has a script of this name, such as Latin, Han or Cyrillic."""
    try:
        _script(name)
    except regex.error:
        return False
    return True


def script_share(text: str, scripts: tuple[str, ...]) -> float:
    """The share of a text's letters that belong to one of the scripts; 1 where it has none."""
    letters = _LETTER.findall(text)
    if not letters:
        return 1.0
    plain = "".join(letters)
    return sum(len(_script(name).findall(plain)) for name in scripts) / len(letters)
