"""Corrections for many tests."""

from collections.abc import Sequence


def holm(values: Sequence[float]) -> list[float]:
    """Return each p corrected for all tests together, in the same order (Holm 1979).

    A report that rejects at the corrected p is wrong in at most that share of cases, over all its
    tests together.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    corrected, highest = [0.0] * len(values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = highest
    return corrected
