"""Intervals of shares that are means over tasks, and of ratios of two sums over tasks."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri, stdtrit

from assay_shared.statistics.bootstrap import NUM_RESAMPLES
from assay_shared.statistics.interval import Interval, wilson_bounds

_MOST_AT_ONCE = 2**24


def share_interval(values: Sequence[float], confidence: float, most_each: int = 1) -> Interval:
    """Return the mean of per-task values from 0 to 1, with Wilson's bounds for clustered data.

    The effective number of observations comes from the variance between tasks, and is corrected
    for the uncertainty of that variance (Korn and Graubard 1998). A bootstrap of values that are
    all 0, or all 1, has no width; these bounds have that of the same number of single observations.

    Args:
        most_each: samples behind a task's value; a task counts as at most this number.

    Raises:
        ValueError: `values` is empty.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    array = np.asarray(values, dtype=float)
    share, num = float(array.mean()), len(array)
    effective = _effective_number(array, share, most_each)
    if num > 1 and effective != num:
        tail = (1.0 + confidence) / 2.0
        effective *= float(ndtri(tail) / stdtrit(num - 1, tail)) ** 2
    return Interval(share, *wilson_bounds(share, effective, confidence))


def _effective_number(array: np.ndarray, share: float, most_each: int) -> float:
    """Return the number of independent single observations with the same variance of the mean."""
    num = len(array)
    if num == 1 or share in (0.0, 1.0) or set(np.unique(array)) <= {0.0, 1.0}:
        return float(num)
    variance = float(array.var(ddof=1)) / num
    most = float(num * most_each)
    return most if variance == 0.0 else min(most, share * (1.0 - share) / variance)


def ratio_interval(
    tops: Sequence[float], bottoms: Sequence[float], confidence: float, seed: int
) -> Interval | None:
    """Return the ratio of two sums over tasks with its percentile bootstrap interval over tasks.

    Such as the tokens for each solved task. None if the lower sum is 0. A resample whose lower sum
    is 0 has an infinite ratio, and so may the upper bound.

    Raises:
        ValueError: the two differ in length, or are empty.
    """
    if len(tops) != len(bottoms) or not tops:
        raise ValueError(f"{len(tops)} and {len(bottoms)} values cannot be divided in pairs")
    top, bottom = np.asarray(tops, dtype=float), np.asarray(bottoms, dtype=float)
    if bottom.sum() == 0:
        return None
    rng = np.random.default_rng(seed)
    ratios = []
    size = max(1, _MOST_AT_ONCE // len(top))
    for first in range(0, NUM_RESAMPLES, size):
        shape = (min(size, NUM_RESAMPLES - first), len(top))
        picked = rng.integers(0, len(top), size=shape, dtype=np.int32)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = top[picked].sum(axis=1) / bottom[picked].sum(axis=1)
        ratios.append(np.nan_to_num(found, nan=np.inf, posinf=np.inf))
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(np.concatenate(ratios), [tail, 1.0 - tail], method="inverted_cdf")
    return Interval(float(top.sum() / bottom.sum()), float(low), float(high))
