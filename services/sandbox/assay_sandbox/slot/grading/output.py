"""Comparison of a program's output with the expected output, as set by the case.

Nothing here takes more than linear time (`unordered` sorts its lines), or more memory than a few
times the texts' own. Small texts are compared in the server, large texts in a slot.
"""

import re
from collections.abc import Callable, Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from itertools import zip_longest

#: An expected number below this counts as this much: otherwise nothing is within a share of 0.
_TINY = Decimal("1e-10")
_WORD = re.compile(r"\S+")
#: Digits of ASCII only: no underscores, no hexadecimal numbers, no digits of other scripts.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITY = re.compile(r"([+-]?)inf(?:inity)?", re.IGNORECASE)
_NAN = re.compile(r"[+-]?nan", re.IGNORECASE)
_CONTEXT = Context(prec=40, Emin=MIN_EMIN, Emax=MAX_EMAX)


def same_output(got: str, expected: str, compare: str, tolerance: float) -> bool:
    """Return True if `got` equals `expected` by the named comparison, see `Comparison`."""
    if compare == "exact":
        return got == expected
    if compare == "lines":
        return _all(_lines(got), _lines(expected), _equal)
    if compare == "tokens":
        return _all(_words(got), _words(expected), _equal)
    if compare == "unordered":
        return sorted(_lines(got)) == sorted(_lines(expected))
    allowed = Decimal(str(tolerance))
    if compare == "numbers":
        return _all(_words(got), _words(expected), lambda a, b: _close(a, b, allowed))
    return _all(_folded(got), _folded(expected), lambda a, b: _relatively_close(a, b, allowed))


def _equal(got: str, expected: str) -> bool:
    return got == expected


def _all(got: Iterator[str], expected: Iterator[str], alike: Callable[[str, str], bool]) -> bool:
    """Return True if both sides have equally many items and each pair is alike."""
    return all(
        one is not None and other is not None and (one == other or alike(one, other))
        for one, other in zip_longest(got, expected)
    )


def _words(text: str) -> Iterator[str]:
    return (match.group() for match in _WORD.finditer(text))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines without trailing whitespace, and without empty lines at the end."""
    return (line.rstrip() for line in _split(text.rstrip()))


def _folded(text: str) -> Iterator[str]:
    return (line.strip().lower() for line in _split(text.strip()))


def _split(text: str) -> Iterator[str]:
    """Yield the lines of `text.split("\\n")` without building the list."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _special(text: str) -> str:
    """Return "inf", "-inf" or "nan" if the text means an infinity or NaN, else ""."""
    found = _INFINITY.fullmatch(text)
    if found:
        return "-inf" if found[1] == "-" else "inf"
    return "nan" if _NAN.fullmatch(text) else ""


def _close(got: str, expected: str, tolerance: Decimal) -> bool:
    """Return True if two numbers are close.

    The comparison is decimal: without tolerance, whole numbers of any size must be the same. An
    infinity is close to itself only, and NaN to NaN.
    """
    numbers = _finite(got, expected)
    if numbers is None:
        return bool(_special(got)) and _special(got) == _special(expected)
    first, second = numbers
    if first == second:
        return True
    try:
        # By the expected number alone: a program's output must not widen the tolerance.
        scale = max(_CONTEXT.abs(second), Decimal(1))
        difference = _CONTEXT.abs(_CONTEXT.subtract(first, second))
        return difference <= _CONTEXT.multiply(tolerance, scale)
    except ArithmeticError:  # too large to count with
        return False


def _relatively_close(got: str, expected: str, tolerance: Decimal) -> bool:
    numbers = _finite(got, expected)
    if numbers is None:
        return bool(_special(got)) and _special(got) == _special(expected) != "nan"
    first, second = numbers
    if first == second:
        return True
    try:
        scale = max(_CONTEXT.abs(second), _TINY)
        difference = _CONTEXT.abs(_CONTEXT.subtract(first, second))
        return _CONTEXT.divide(difference, scale) < tolerance
    except ArithmeticError:
        return False


def _finite(got: str, expected: str) -> tuple[Decimal, Decimal] | None:
    """Return both texts as numbers, or None unless both are finite."""
    if not (_NUMBER.fullmatch(got) and _NUMBER.fullmatch(expected)):
        return None
    try:
        return Decimal(got), Decimal(expected)
    except ArithmeticError:  # an exponent with too many digits
        return None
