"""The language and the script of a text, found without a network and always the same."""

from functools import lru_cache
from typing import Any

import regex

#: Letters of some script. A few letters, such as the Japanese prolongation mark, are common to
#: several scripts and do not match.
_LETTER = regex.compile(r"(?!\p{Script=Common})\p{L}")


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Return py3langid's model of 97 languages; loading it takes about a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


@lru_cache(maxsize=1)
def known_languages() -> frozenset[str]:
    """Return the language codes (ISO 639-1) known to `language_of`."""
    return frozenset(str(code) for code in _identifier().nb_classes)


def language_of(text: str) -> str:
    """Return the most likely language: a guess for a few words, certain from a sentence or two."""
    code, _ = _identifier().classify(text)
    return str(code)


@lru_cache(maxsize=256)
def _script(name: str) -> "regex.Pattern[str]":
    return regex.compile(rf"\p{{Script={name}}}")


def is_script(name: str) -> bool:
    """Return True if Unicode has a script of this name, such as Latin, Han or Cyrillic."""
    try:
        _script(name)
    except regex.error:
        return False
    return True


def script_share(text: str, scripts: tuple[str, ...]) -> float:
    """Return the share of a text's letters in the scripts; 1 for a text without letters."""
    letters = _LETTER.findall(text)
    if not letters:
        return 1.0
    plain = "".join(letters)
    return sum(len(_script(name).findall(plain)) for name in scripts) / len(letters)
