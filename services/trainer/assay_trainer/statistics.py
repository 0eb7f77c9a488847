"""Honest numbers: unbiased pass@k, and intervals that treat the task as the unit."""

from collections.abc import Sequence
from math import prod, sqrt
from statistics import NormalDist

import numpy as np

from assay_trainer.interval import Interval

NUM_RESAMPLES = 10_000


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k): the unbiased estimate of one task's pass@k (arXiv 2107.03374, 1).

    Raises:
        ValueError: fewer than k samples.
    """
    if k > num_samples:
        raise ValueError(f"pass@{k} cannot be estimated from {num_samples} samples")
    num_wrong = num_samples - num_correct
    if num_wrong < k:
        return 1.0
    return 1.0 - prod(1.0 - k / i for i in range(num_wrong + 1, num_samples + 1))


def mean_interval(values: Sequence[float], confidence: float, seed: int) -> Interval:
    """Mean of per-task values, with a percentile bootstrap over tasks.

    The samples of one task are not independent of each other; its mean is one observation.
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
    """Mean of after - before over the same tasks in the same order."""
    if len(before) != len(after):
        raise ValueError(f"{len(before)} and {len(after)} values cannot be paired")
    differences = [y - x for x, y in zip(before, after, strict=True)]
    return mean_interval(differences, confidence, seed)


def wilson_interval(num_successes: int, num_trials: int, confidence: float) -> Interval:
    """A share with Wilson's score interval, which no number of successes makes empty."""
    if not 0 <= num_successes <= num_trials or not num_trials:
        raise ValueError(f"{num_successes} of {num_trials} is no share")
    share = num_successes / num_trials
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    shrink = 1.0 + z * z / num_trials
    middle = (share + z * z / (2 * num_trials)) / shrink
    spread = z * sqrt(share * (1 - share) / num_trials + (z / (2 * num_trials)) ** 2) / shrink
    return Interval(share, max(0.0, middle - spread), min(1.0, middle + spread))
