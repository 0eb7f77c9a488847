"""Bootstrap intervals of means over tasks."""

from collections.abc import Sequence

import numpy as np

from assay_shared.statistics.interval import Interval

NUM_RESAMPLES = 10_000


def mean_interval(values: Sequence[float], confidence: float, seed: int) -> Interval:
    """Return the mean of per-task values with its percentile bootstrap interval over tasks.

    Samples of one task depend on each other: pass the task's mean as one value.

    Raises:
        ValueError: `values` is empty.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    array = np.asarray(values, dtype=float)
    rng = np.random.default_rng(seed)
    picked = rng.integers(0, len(array), size=(NUM_RESAMPLES, len(array)), dtype=np.int32)
    means = array[picked].mean(axis=1)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(float(array.mean()), float(low), float(high))


def paired_difference(
    before: Sequence[float], after: Sequence[float], confidence: float, seed: int
) -> Interval:
    """Return the mean of `after - before`, over the same tasks in the same order.

    Raises:
        ValueError: the two differ in length, or are empty.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} and {len(after)} values cannot be paired")
    differences = [y - x for x, y in zip(before, after, strict=True)]
    return mean_interval(differences, confidence, seed)
