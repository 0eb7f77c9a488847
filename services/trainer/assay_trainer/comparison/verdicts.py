"""Verdicts of rows: Holm's correction over all tests of a report, and three findings."""

from collections.abc import Sequence

from assay_shared.statistics.multiplicity import holm
from assay_trainer.comparison.metrics import Better
from assay_trainer.comparison.results import ComparedRow, RowVerdict


def with_verdicts(rows: Sequence[ComparedRow], alpha: float) -> list[ComparedRow]:
    """Return the rows with corrected p and verdicts.

    A row is better or worse if its corrected p is below `alpha` and its interval excludes 0; the
    same if its corrected p of equivalence is below `alpha`; else inconclusive. Tests of a
    difference and tests of equivalence are two families.
    """
    corrected = _corrected([row.p for row in rows])
    equivalence = _corrected([row.p_equivalence for row in rows])
    found = []
    for row, p, p_same in zip(rows, corrected, equivalence, strict=True):
        changed = row.model_copy(update={"p_corrected": p, "p_equivalence_corrected": p_same})
        found.append(changed.model_copy(update={"verdict": _verdict(changed, alpha)}))
    return found


def _corrected(values: Sequence[float | None]) -> list[float | None]:
    known = [one for one in values if one is not None]
    found = iter(holm(known))
    return [None if one is None else next(found) for one in values]


def _verdict(row: ComparedRow, alpha: float) -> RowVerdict:
    if row.verdict is not RowVerdict.UNTESTED or row.p_corrected is None:
        return row.verdict
    if row.p_equivalence_corrected is not None and row.p_equivalence_corrected < alpha:
        return RowVerdict.SAME
    sign = sign_of(row)
    if row.p_corrected >= alpha or sign == 0:
        return RowVerdict.INCONCLUSIVE
    is_better = (sign > 0) == (row.better is Better.HIGHER)
    return RowVerdict.BETTER if is_better else RowVerdict.WORSE


def sign_of(row: ComparedRow) -> int:
    """Return 1 or -1 if the interval of the row's change is above or below 0, else 0."""
    change = row.headline
    if change is None:
        return 0
    interval = change.interval
    return int(interval.low > 0) - int(interval.high < 0)
