"""Whether what a program printed is what was expected, in the way that the case asks for."""

from collections.abc import Callable, Sequence
from decimal import Decimal

from assay_shared.types import Comparison, StdinCase

#: Below it, what is expected counts as this much: nothing is within a share of 0.
_TINY = 1e-10


def same_output(got: str, case: StdinCase) -> bool:
    """By `case.compare`; see `Comparison`."""
    expected = case.expected_stdout
    match case.compare:
        case Comparison.EXACT:
            return got == expected
        case Comparison.LINES:
            return _lines(got) == _lines(expected)
        case Comparison.TOKENS:
            return got.split() == expected.split()
        case Comparison.UNORDERED:
            return sorted(_lines(got)) == sorted(_lines(expected))
        case Comparison.NUMBERS:
            return _all_alike(got.split(), expected.split(), case.tolerance, _close)
        case Comparison.LOOSE:
            return _all_alike(_folded(got), _folded(expected), case.tolerance, _relatively_close)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _folded(text: str) -> list[str]:
    return [line.strip().lower() for line in text.strip().split("\n")]


def _all_alike(
    got: Sequence[str],
    expected: Sequence[str],
    tolerance: float,
    alike: Callable[[str, str, float], bool],
) -> bool:
    return len(got) == len(expected) and all(
        one == other or alike(one, other, tolerance)
        for one, other in zip(got, expected, strict=True)
    )


def _close(got: str, expected: str, tolerance: float) -> bool:
    """Decimal, so that with no tolerance whole numbers of any size must be the same."""
    try:
        first, second = Decimal(got), Decimal(expected)
        scale = max(abs(first), abs(second), Decimal(1))
        return first == second or abs(first - second) <= Decimal(str(tolerance)) * scale
    except ArithmeticError:  # no number, or none to count with
        return False


def _relatively_close(got: str, expected: str, tolerance: float) -> bool:
    try:
        first, second = float(got), float(expected)
    except ValueError:
        return False
    return first == second or abs(first - second) / max(abs(second), _TINY) < tolerance
