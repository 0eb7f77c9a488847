"""The options of a multiple-choice question, and their spellings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from assay_shared.answers.formulas.latex import plain, words_of
from assay_shared.answers.words import words_key

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: Longer texts of options are not cached together.
MAX_OPTION = 1000
#: The same options come with each group of answers to a task: keys of short options are cached.
_MAX_KEPT = 200
WIDE_LETTERS = "ＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰＱＲＳＴＵＶＷＸＹＺ"
_DECORATION = str.maketrans(f"（）．{WIDE_LETTERS}", f"().{LETTERS}", '*`"“”✅✔☑✓🎉')
_DECORATED = re.compile('[（）．Ａ-Ｚ*`"“”✅✔☑✓🎉]')
#: The underscores around an emphasis, as opposed to an index: CO_2, H_{2}O.
_UNDERSCORES = re.compile(r"(?<!\w)_{1,2}(?=\w)|(?<=\w)_{1,2}(?![\w{])")


@dataclass(frozen=True)
class ChoiceOptions:
    """The texts of the options, in order."""

    texts: tuple[str, ...]

    @cached_property
    def by_key(self) -> dict[str, str | None]:
        """The letter of each option by its text; None for the same text (ignoring case) of two."""
        found: dict[str, str | None] = {}
        for letter, text in zip(LETTERS, self.texts, strict=False):
            key = option_key(text)
            for written in {key, key.casefold()}:
                found[written] = None if written in found else letter
        return found

    @cached_property
    def longest(self) -> int:
        return max(map(len, self.texts))

    @cached_property
    def _letters(self) -> str:
        return LETTERS[: len(self.texts)]

    def letter(self, name: str) -> str | None:
        upper = name.upper()
        return upper if upper in self._letters else None


def options_of(texts: tuple[str, ...]) -> ChoiceOptions:
    """Return the options with these texts."""
    return _short_options(texts) if sum(map(len, texts)) <= MAX_OPTION else ChoiceOptions(texts)


_short_options = lru_cache(maxsize=1024)(ChoiceOptions)


def option_key(text: str) -> str:
    """Return a key of an option's text, equal for different spellings of the same text."""
    return _short_key(text) if len(text) <= _MAX_KEPT else _key(text)


def _key(text: str) -> str:
    return words_key(words_of(plain(undecorated(text))), fold=False)


_short_key = lru_cache(maxsize=4096)(_key)


def undecorated(text: str) -> str:
    if not _DECORATED.search(text):
        return text
    bare = text.translate(_DECORATION)
    return _UNDERSCORES.sub("", bare) if "_" in bare else bare


def is_there_twice(texts: Sequence[str], letter: str) -> bool:
    """Return True if another option has the same text as the option of the letter."""
    keys = [option_key(text) for text in texts]
    return keys.count(keys[LETTERS.index(letter)]) > 1
