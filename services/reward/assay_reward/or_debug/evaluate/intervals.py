"""Intervals around shares and means, and what they allow to say."""

import math
from collections.abc import Sequence
from enum import StrEnum
from random import Random

from assay_shared.types import Wire

#: Of the standard normal distribution: 95 % lie within.
_Z = 1.959963984540054
_RESAMPLES = 1000


class CellEstimate(Wire):
    """A mean over `n` episodes with its 95 % interval."""

    mean: float
    low: float
    high: float
    n: int


class TargetVerdict(StrEnum):
    """What an interval says of a target; INCONCLUSIVE asks for more episodes."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


def wilson(successes: int, n: int) -> CellEstimate:
    """A share with its Wilson score interval (Wilson 1927)."""
    share = successes / n
    centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    # At 0 and 1 the interval ends there exactly, whatever rounding says.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return CellEstimate(mean=share, low=low, high=high, n=n)


def bootstrap(values: Sequence[float], seed: int = 0) -> CellEstimate:
    """A mean with its percentile bootstrap interval; the same values give the same interval."""
    rng, n = Random(seed), len(values)
    mean = math.fsum(values) / n
    if min(values) == max(values):
        return CellEstimate(mean=mean, low=mean, high=mean, n=n)
    means = sorted(math.fsum(rng.choices(values, k=n)) / n for _ in range(_RESAMPLES))
    return CellEstimate(
        mean=mean, low=means[int(0.025 * _RESAMPLES)], high=means[int(0.975 * _RESAMPLES) - 1], n=n
    )


def estimate(values: Sequence[float]) -> CellEstimate:
    """Wilson's interval for values that are all 0 or 1, else a bootstrap."""
    if set(values) <= {0.0, 1.0}:
        return wilson(int(sum(values)), len(values))
    return bootstrap(values)


def judge(found: CellEstimate, low: float, high: float) -> TargetVerdict:
    """Whether the true value lies in the target range from `low` to `high`."""
    if low <= found.low and found.high <= high:
        return TargetVerdict.PASS
    if found.high < low or found.low > high:
        return TargetVerdict.FAIL
    return TargetVerdict.INCONCLUSIVE
