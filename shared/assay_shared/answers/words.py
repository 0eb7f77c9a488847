"""Texts: the same words, without any change that could change what they say."""

import re

_MAX_LENGTH = 20_000
_QUOTES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " ", "\u202f": " "})
#: Marks that end a clause behind a word; a question mark is a doubt. A mark behind a digit or a
#: single letter may be of mathematics (5!, n!), a dot before a digit is a decimal's.
_MARK = re.compile(r"(?<=[^\W\d_][^\W\d_])[.,;:!]+(?=\s|$|\")|(?<=\d)[.,;:](?=\s|$)|(?<=[^\s.])\.$")
_FINAL_MARKS = "。．｡।۔።！，、；"
_HYPHEN = re.compile(r"(?<=[^\W\d_][^\W\d_])-(?=[^\W\d_]{2})")
_QUOTED = re.compile(r"""(?<![\w'])(["'])(?=\w)([^"']*)\1(?!\w)""")
#: "A" is an article before a word in lower case, not in "vitamin A", "a b" or "a few".
_ARTICLE = re.compile(
    r"(?:(?<=\s)|^)(?:[Tt]he|THE|an|An|a|A(?=\s[a-z]))\s(?!few\b|little\b|lot\b)(?=\w{2}|\d)"
)
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


def same_words(one: str, other: str) -> bool:
    """Whether both have the same words, numbers and signs, in the same order.

    Case, articles, quotation marks and the marks at the end of a word do not count. Digits, signs
    and operators do, and so does case where it may tell: in single letters and in words like MPa.
    """
    if one == other:
        return bool(one.strip())
    if max(len(one), len(other)) > _MAX_LENGTH:
        return False
    key = words_key(one)
    return bool(key) and key == words_key(other)


def words_key(text: str, fold: bool = True) -> str:
    """What two texts of the same words have in common, their case too unless `fold`; empty for a
    text of none."""
    spaced = " ".join(text.translate(_QUOTES).split()).strip("*_`").rstrip(_FINAL_MARKS)
    plain = _HYPHEN.sub(" ", _QUOTED.sub(r"\2", _MARK.sub("", spaced)))
    plain = _ARTICLE.sub("", plain)
    return " ".join((_WORD.sub(_folded, plain) if fold else plain).split())


def _folded(found: re.Match[str]) -> str:
    word = found.group()
    usual = word.islower() or word.istitle() or (word.isupper() and len(word) > 2)
    return word.casefold() if usual and len(word) > 1 else word
