"""Verdicts of rows: Holm's correction over all tests of a report, and three findings."""

from collections.abc import Sequence

from assay_shared.statistics.multiplicity import holm
from assay_trainer.comparison.metrics import Better
from assay_trainer.comparison.results import Bounds, ComparedRow, RowVerdict


def with_verdicts(rows: Sequence[ComparedRow], alpha: float) -> list[ComparedRow]:
    """Return the rows with corrected p and verdicts.

    A row is better or worse if its corrected p is below `alpha` and its interval excludes 0; the
    same if its corrected p of equivalence is below `alpha`; else inconclusive. Tests of a
    difference and tests of equivalence are two families. A verdict has to hold with failed samples
    counted against it too.
    """
    corrected = _corrected([row.p for row in rows])
    equivalence = _corrected([row.p_equivalence for row in rows])
    cases = [row if row.failed is None else row.failed for row in rows]
    against = _corrected(
        [None if row.p is None else one.p for row, one in zip(rows, cases, strict=True)]
    )
    same_against = _corrected(
        [
            None if row.p_equivalence is None else one.p_equivalence
            for row, one in zip(rows, cases, strict=True)
        ]
    )
    found = []
    for row, p, p_same, p_against, p_same_against in zip(
        rows, corrected, equivalence, against, same_against, strict=True
    ):
        changed = row.model_copy(update={"p_corrected": p, "p_equivalence_corrected": p_same})
        alone = _verdict(changed, row.headline, p, p_same, alpha)
        if row.failed is None:
            found.append(changed.model_copy(update={"verdict": alone}))
            continue
        case = row.failed.model_copy(
            update={
                "p_corrected": p_against,
                "p_equivalence_corrected": p_same_against,
                "verdict_without": alone,
            }
        )
        widened = case.relative if row.is_relative else case.difference
        verdict = _verdict(changed, widened, p_against, p_same_against, alpha)
        found.append(changed.model_copy(update={"failed": case, "verdict": verdict}))
    return found


def _corrected(values: Sequence[float | None]) -> list[float | None]:
    known = [one for one in values if one is not None]
    found = iter(holm(known))
    return [None if one is None else next(found) for one in values]


def _verdict(
    row: ComparedRow, change: Bounds | None, p: float | None, p_same: float | None, alpha: float
) -> RowVerdict:
    if row.verdict is not RowVerdict.UNTESTED or p is None:
        return row.verdict
    if p_same is not None and p_same < alpha:
        return RowVerdict.SAME
    sign = _sign(change)
    if p >= alpha or sign == 0:
        return RowVerdict.INCONCLUSIVE
    is_better = (sign > 0) == (row.better is Better.HIGHER)
    return RowVerdict.BETTER if is_better else RowVerdict.WORSE


def _sign(change: Bounds | None) -> int:
    """Return 1 or -1 if the interval of a change is above or below 0, else 0."""
    if change is None:
        return 0
    return int(change.interval.low > 0) - int(change.interval.high < 0)
