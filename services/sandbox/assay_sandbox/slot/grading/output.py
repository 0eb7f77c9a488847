"""Whether what a program printed is what was expected, in the way that the case asks for.

Nothing here takes more than linear time (`unordered` sorts its lines), or more memory than a few
times the texts' own. Small texts are compared in the server, large ones in a slot.
"""

import re
from collections.abc import Callable, Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from itertools import zip_longest

#: Below it, what is expected counts as this much: nothing is within a share of 0.
_TINY = Decimal("1e-10")
_WORD = re.compile(r"\S+")
#: Digits of ASCII only: no underscores, no hexadecimal numbers, no digits of other scripts.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITY = re.compile(r"([+-]?)inf(?:inity)?", re.IGNORECASE)
_NAN = re.compile(r"[+-]?nan", re.IGNORECASE)
_CONTEXT = Context(prec=40, Emin=MIN_EMIN, Emax=MAX_EMAX)


def same_output(got: str, expected: str, compare: str, tolerance: float) -> bool:
    """Return whether `got` is `expected` by the comparison of that name, see `Comparison`."""
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
    """Whether there are as many on both sides, and each is alike."""
    return all(
        one is not None and other is not None and (one == other or alike(one, other))
        for one, other in zip_longest(got, expected)
    )


def _words(text: str) -> Iterator[str]:
    return (match.group() for match in _WORD.finditer(text))


def _lines(text: str) -> Iterator[str]:
    """The lines without whitespace at their ends, and without empty ones at the end of all."""
    return (line.rstrip() for line in _split(text.rstrip()))


def _folded(text: str) -> Iterator[str]:
    return (line.strip().lower() for line in _split(text.strip()))


def _split(text: str) -> Iterator[str]:
    """As `text.split("\\n")` does, one at a time."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _special(text: str) -> str:
    """The name of an infinity, or of no number at all; "" for other texts."""
    found = _INFINITY.fullmatch(text)
    if found:
        return "-inf" if found[1] == "-" else "inf"
    return "nan" if _NAN.fullmatch(text) else ""


def _close(got: str, expected: str, tolerance: Decimal) -> bool:
    """Decimal, so that with no tolerance whole numbers of any size must be the same.

    An infinity is close to itself only, and NaN to NaN.
    """
    numbers = _finite(got, expected)
    if numbers is None:
        return bool(_special(got)) and _special(got) == _special(expected)
    first, second = numbers
    if first == second:
        return True
    try:
        # By what is expected alone: what is printed must not widen what is allowed.
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
    """Both as numbers, if both are finite ones."""
    if not (_NUMBER.fullmatch(got) and _NUMBER.fullmatch(expected)):
        return None
    try:
        return Decimal(got), Decimal(expected)
    except ArithmeticError:  # an exponent of more digits than there are
        return None
