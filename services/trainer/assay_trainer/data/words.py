"""Texts as lists of words: case, spacing and punctuation make no difference."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

#: Scripts that put no space between words: each sign is a word.
_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
#: Signs of arithmetic and comparison stay: `x > 3` and `x < 3` are different tasks.
_WORD = re.compile(rf"\d+(?:\.\d+)?|[{_IDEOGRAPH}]|[^\W_{_IDEOGRAPH}]+|[-+*/%<>=^&|~]+")


def words_of(text: str) -> list[str]:
    """Return words, numbers and signs in lower case; without any, the parts between spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _WORD.findall(folded) or folded.split()


def has_words(text: str) -> bool:
    """Return True if a text has a word, a number or a sign of arithmetic."""
    return _WORD.search(unicodedata.normalize("NFKC", text)) is not None


def ngrams(words: Sequence[str], n: int) -> Iterator[str]:
    """Yield every run of `n` words, joined by spaces; nothing for a shorter text."""
    return (" ".join(words[start : start + n]) for start in range(len(words) - n + 1))
