"""Sets of real numbers and numerals of a base, in the ways that they are written."""

import itertools
import re

from assay_shared.answers.latex import CLOSE, OPEN
from assay_shared.answers.quantity import quantity_of

REALS = r"\mathbb{R}"
_ALL = r"(-\infty,\infty)"
_MAX_POINTS = 16
#: All real numbers but some, and all numbers with a property.
_WITHOUT = re.compile(
    r"(?:\\mathbb\{R\}|\(-\\infty,\s?\\infty\))\s?(?:\\setminus|-)\s?\\\{(.+)\\\}", re.DOTALL
)
_WITH = re.compile(
    r"\\\{\s?([A-Za-z])\s?(?:\\in\s?\\mathbb\{R\})?\s?(?:\||:)\s?(.+)\\\}", re.DOTALL
)
#: ]a, b[ has its ends outside.
_OUTWARD = re.compile(r"([\][(])([^][(),;]+)[,;]([^][(),;]+)([\][)])")
_BASES = (
    *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen"),
)
_BASE_OF = {name: base for base, name in enumerate(_BASES, 2)}
_NUMERAL = re.compile(
    rf"(\d[0-9A-Fa-f]*+)(\.[0-9A-Fa-f]+)?\s?_\s?\{{?[\s({OPEN}{CLOSE}]*+(?:base[\s{OPEN}{CLOSE}-]*+)?+"
    rf"(\d\d?+|{'|'.join(_BASES)})[\s){OPEN}{CLOSE}]*+\}}?[\s{CLOSE}]*+"
)


def all_but(points: str) -> str | None:
    """The intervals between points that a text lists; None where their order cannot be told."""
    parts = [part.strip() for part in points.split(",")]
    if not all(parts) or len(parts) > _MAX_POINTS or not set("([").isdisjoint(points):
        return None
    if len(parts) > 1:
        numbers = [quantity_of(part) for part in parts]
        values = [number.value for number in numbers if number is not None and not number.unit]
        if len(values) < len(parts) or len(set(values)) < len(values):
            return None
        parts = [part for _, part in sorted(zip(values, parts, strict=True))]
    ends = [r"-\infty", *parts, r"\infty"]
    return r"\cup".join(f"({low},{high})" for low, high in itertools.pairwise(ends))


def as_intervals(text: str) -> str | None:
    """A set of real numbers as intervals; None for any other text."""
    if text == REALS:
        return _ALL
    without = _WITHOUT.fullmatch(text)
    if without is not None:
        return all_but(without[1])
    turned = _OUTWARD.sub(_turned, text) if text[:1] == "]" or text[-1:] == "[" else text
    return turned if turned != text else None


def _turned(found: re.Match[str]) -> str:
    opened = {"]": "("}.get(found[1], found[1])
    closed = {"[": ")"}.get(found[4], found[4])
    return f"{opened}{found[2]},{found[3]}{closed}"


def property_of(text: str) -> tuple[str, str] | None:
    """The variable and the condition of a set of all real numbers with a property."""
    found = _WITH.fullmatch(text)
    return None if found is None else (found[1], found[2].strip())


def numeral_of(text: str) -> tuple[str, int] | None:
    """The digits and the base of a numeral with a base, as in 1010_2; None for anything else."""
    found = _NUMERAL.fullmatch(text) if "_" in text else None
    if found is None:
        return None
    digits = found[1].lstrip("0") + (found[2] or "").rstrip("0")
    base = _BASE_OF.get(found[3]) or int(found[3])
    if not 2 <= base <= 16 or any(int(digit, 16) >= base for digit in digits if digit != "."):
        return None
    return digits, base
