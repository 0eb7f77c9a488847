"""Confidence intervals of shares and means, and verdicts about targets."""

from collections.abc import Sequence
from enum import StrEnum

from assay_shared.statistics.bootstrap import mean_interval
from assay_shared.statistics.interval import wilson_interval
from assay_shared.types import Wire

_CONFIDENCE = 0.95


class CellEstimate(Wire):
    """A mean over `n` episodes with its 95 % interval."""

    mean: float
    low: float
    high: float
    n: int


class TargetVerdict(StrEnum):
    """Verdict of an interval about a target; INCONCLUSIVE asks for more episodes."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


def estimate(values: Sequence[float]) -> CellEstimate:
    """Return Wilson's interval of values that are all 0 or 1, else a bootstrap over episodes.

    Equal values give equal intervals: the bootstrap's seed is fixed.
    """
    if set(values) <= {0.0, 1.0}:
        found = wilson_interval(int(sum(values)), len(values), _CONFIDENCE)
    else:
        found = mean_interval(values, _CONFIDENCE, seed=0)
    return CellEstimate(mean=found.value, low=found.low, high=found.high, n=len(values))


def judge(found: CellEstimate, low: float, high: float) -> TargetVerdict:
    """Return the verdict about the target range from `low` to `high`."""
    if low <= found.low and found.high <= high:
        return TargetVerdict.PASS
    if found.high < low or found.low > high:
        return TargetVerdict.FAIL
    return TargetVerdict.INCONCLUSIVE
