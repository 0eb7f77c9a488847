"""Confidence intervals of means and differences over tasks, and verdicts about bounds."""

import math
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from math import fsum
from statistics import fmean

from assay_shared.statistics.exact_share import exact_interval, reaching_unseen
from assay_shared.statistics.paired import difference_interval, mean_over_tasks, sign_flip_p
from assay_shared.types import Wire

_CONFIDENCE = 0.95
#: Equal values give equal intervals.
_SEED = 0
#: A bound this close to the end of an interval touches it.
_ROUNDING = 1e-9

_MOST_CORRELATION = 0.95

#: The lowest and the highest value that a number can have.
Ends = tuple[float, float]
SHARE_ENDS: Ends = (0.0, 1.0)
SHARE_DIFFERENCE_ENDS: Ends = (-1.0, 1.0)
COUNT_ENDS: Ends = (0.0, math.inf)
ANY_ENDS: Ends = (-math.inf, math.inf)


class CellEstimate(Wire):
    """A mean over `n` tasks, or steps of a training run, with its 95 % interval."""

    mean: float
    low: float
    high: float
    n: int


class TargetVerdict(StrEnum):
    """Verdict of an interval about a target; INCONCLUSIVE asks for more tasks."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


def estimate(values: Sequence[float], *, is_share: bool) -> CellEstimate:
    """Return the mean of per-task values, none below 0, with its interval over tasks.

    Values that are all 0 or 1 get the exact interval of a share. Others get a bootstrap with two
    far tasks; that of a share also reaches the extreme tasks that the sample may lack.

    Args:
        is_share: no value can be above 1.
    """
    if is_share and set(values) <= {0.0, 1.0}:
        found = exact_interval(int(sum(values)), len(values), _CONFIDENCE)
    else:
        found = mean_over_tasks(values, _CONFIDENCE, _SEED)
        if is_share:
            found = reaching_unseen(found, len(values), SHARE_ENDS, _CONFIDENCE)
    low = max(0.0, found.low)
    return CellEstimate(mean=found.value, low=low, high=found.high, n=len(values))


def estimate_series(values: Sequence[float]) -> CellEstimate:
    """Return the mean of values of a run's steps, none below 0, with its interval.

    Neighbouring steps resemble each other, so that they tell less than as many tasks: the interval
    is wider by the root of (1 + r) / (1 - r), where r is their correlation (Bartlett 1946).
    """
    found = mean_over_tasks(values, _CONFIDENCE, _SEED)
    r = _correlation_of_neighbours(values)
    wider = math.sqrt((1 + r) / (1 - r))
    low, high = (found.value + wider * (end - found.value) for end in (found.low, found.high))
    return CellEstimate(mean=found.value, low=max(0.0, low), high=high, n=len(values))


def _correlation_of_neighbours(values: Sequence[float]) -> float:
    """Return the correlation, from 0 to 0.95, corrected for its bias in a short series."""
    num, mean = len(values), fmean(values)
    spread = fsum((one - mean) ** 2 for one in values)
    if spread <= 0:
        return 0.0
    together = fsum((a - mean) * (b - mean) for a, b in pairwise(values))
    # Marriott and Pope 1954: a short series shows too small a correlation.
    corrected = (num * together / spread + 1) / max(1, num - 4)
    return min(_MOST_CORRELATION, max(0.0, corrected))


def estimate_difference(
    before: Sequence[float], after: Sequence[float], *, is_share: bool
) -> CellEstimate:
    """Return the mean of `after - before` over the same tasks, with its interval.

    The bootstrap of `assay compare`, and two rules more. That of a share reaches the extreme tasks
    that the sample may lack. The interval excludes 0 only if the exact test of the tasks' signs
    does too: a bootstrap of five tasks that turned the same way would.
    """
    span = 1.0 if is_share else max(*before, *after) or 1.0
    found = difference_interval(before, after, _CONFIDENCE, _SEED, span)
    if is_share:
        found = reaching_unseen(found, len(before), SHARE_DIFFERENCE_ENDS, _CONFIDENCE)
    low, high = found.low, found.high
    if not low <= 0 <= high and sign_flip_p(before, after, _SEED) >= 1 - _CONFIDENCE:
        low, high = min(low, 0.0), max(high, 0.0)
    return CellEstimate(mean=found.value, low=low, high=high, n=len(before))


def judge(found: CellEstimate, low: float, high: float, ends: Ends = ANY_ENDS) -> TargetVerdict:
    """Return the verdict about the target range from `low` to `high`.

    PASS if the interval lies inside of the range, FAIL if it lies outside. An interval that
    touches a bound is on neither side of it. A bound at the end of all values excludes nothing.
    """
    low = -math.inf if low <= ends[0] else low
    high = math.inf if high >= ends[1] else high
    if found.low > low + _ROUNDING and found.high < high - _ROUNDING:
        return TargetVerdict.PASS
    if found.high < low - _ROUNDING or found.low > high + _ROUNDING:
        return TargetVerdict.FAIL
    return TargetVerdict.INCONCLUSIVE
