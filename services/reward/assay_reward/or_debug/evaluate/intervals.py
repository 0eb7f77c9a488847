"""Confidence intervals of shares and means, and verdicts about targets."""

import math
from collections.abc import Sequence
from enum import StrEnum
from random import Random

from assay_shared.types import Wire

#: 95 % of the standard normal distribution lie between -_Z and _Z.
_Z = 1.959963984540054
_RESAMPLES = 1000


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


def wilson(successes: int, n: int) -> CellEstimate:
    """Return a share with its Wilson score interval (Wilson 1927)."""
    share = successes / n
    centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    # Otherwise rounding could move the end of the interval away from 0 or 1.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return CellEstimate(mean=share, low=low, high=high, n=n)


def bootstrap(values: Sequence[float], seed: int = 0) -> CellEstimate:
    """Return a mean with its percentile bootstrap interval; equal values give equal intervals."""
    rng, n = Random(seed), len(values)
    mean = math.fsum(values) / n
    if min(values) == max(values):
        return CellEstimate(mean=mean, low=mean, high=mean, n=n)
    means = sorted(math.fsum(rng.choices(values, k=n)) / n for _ in range(_RESAMPLES))
    return CellEstimate(
        mean=mean, low=means[int(0.025 * _RESAMPLES)], high=means[int(0.975 * _RESAMPLES) - 1], n=n
    )


def estimate(values: Sequence[float]) -> CellEstimate:
    """Return Wilson's interval if all values are 0 or 1, else a bootstrap interval."""
    if set(values) <= {0.0, 1.0}:
        return wilson(int(sum(values)), len(values))
    return bootstrap(values)


def judge(found: CellEstimate, low: float, high: float) -> TargetVerdict:
    """Return the verdict about the target range from `low` to `high`."""
    if low <= found.low and found.high <= high:
        return TargetVerdict.PASS
    if found.high < low or found.low > high:
        return TargetVerdict.FAIL
    return TargetVerdict.INCONCLUSIVE
