"""Texts undressed: URL encoding and numbers of lines, which put letters and digits into a text."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from urllib.parse import unquote

_ENCODED = re.compile(r"%(?:20|0[aAdD])")
_NUMBERED = re.compile(r"^[ \t>#|]*(\d{1,6})[ \t]*[.:)|\]]?[ \t]?", re.MULTILINE)
_MIN_NUMBERED = 3


def versions(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the texts as they are, then each way to undress them that changes one."""
    yield texts
    for undress in (_decoded, _without_numbers):
        plain = [undress(text) for text in texts]
        if any(one is not None for one in plain):
            yield [one if one is not None else text for one, text in zip(plain, texts, strict=True)]


def _decoded(text: str) -> str | None:
    """Return a text without URL encoding; None if it has none."""
    if "%" not in text or not _ENCODED.search(text):
        return None
    return unquote(text, errors="replace")


def _without_numbers(text: str) -> str | None:
    """Return a text without the numbers of its lines; None if they are not in order."""
    if text.count("\n") < _MIN_NUMBERED - 1:
        return None
    found = list(_NUMBERED.finditer(text))
    numbers = [int(one[1]) for one in found]
    steps = [later - one for one, later in pairwise(numbers)]
    if steps.count(1) < _MIN_NUMBERED - 1:
        return None
    return _NUMBERED.sub("", text)
