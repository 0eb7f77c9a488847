"""Whether what a program printed is what was expected, in the way that the case asks for."""

import math

from assay_shared.types import Comparison, StdinCase


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
            return _same_numbers(got.split(), expected.split(), case.tolerance)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _same_numbers(got: list[str], expected: list[str], tolerance: float) -> bool:
    return len(got) == len(expected) and all(
        one == other or _close(one, other, tolerance)
        for one, other in zip(got, expected, strict=True)
    )


def _close(one: str, other: str, tolerance: float) -> bool:
    try:
        first, second = float(one), float(other)
    except ValueError:
        return False
    return math.isclose(first, second, rel_tol=tolerance, abs_tol=tolerance)
