"""An estimate with its interval, and Wilson's interval of a share; no numerics library."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, stdev


@dataclass(frozen=True)
class Interval:
    """An estimate with the bounds of its confidence interval."""

    value: float
    low: float
    high: float


def wilson_interval(num_successes: int, num_trials: int, confidence: float) -> Interval:
    """Return a share with its Wilson score interval (Wilson 1927).

    Raises:
        ValueError: the two numbers are not a share.
    """
    if not 0 <= num_successes <= num_trials or not num_trials:
        raise ValueError(f"{num_successes} of {num_trials} is not a share")
    share = num_successes / num_trials
    return Interval(share, *wilson_bounds(share, num_trials, confidence))


def wilson_bounds(share: float, num_trials: float, confidence: float) -> tuple[float, float]:
    """Return the Wilson score bounds of `share`.

    `num_trials` may be fractional: the effective number of observations of clustered data.
    """
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    shrink = 1.0 + z * z / num_trials
    middle = (share + z * z / (2 * num_trials)) / shrink
    half = z * sqrt(share * (1 - share) / num_trials + (z / (2 * num_trials)) ** 2) / shrink
    # Rounding must not move the bound at a share of exactly 0 or 1.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def normal_interval(values: Sequence[float], confidence: float) -> Interval | None:
    """Return the mean of independent values with its normal interval; None of fewer than two."""
    if len(values) < 2:
        return None
    mean = fmean(values)
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    half = z * stdev(values, mean) / sqrt(len(values))
    return Interval(mean, mean - half, mean + half)
