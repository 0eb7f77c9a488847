"""Paired differences of two sides over the same tasks: intervals and tests.

A value is a task's mean over its samples, so that samples of one task count as one observation.
"""

from collections.abc import Sequence
from math import exp, sqrt

import numpy as np

from assay_shared.statistics.binomial import binomial_tail
from assay_shared.statistics.exact_share import unseen_share
from assay_shared.statistics.interval import Interval
from assay_shared.statistics.permutation import (
    MOST_SWAPS,
    SwapCounts,
    Swaps,
    grouped_p,
    sampled_p,
)
from assay_shared.statistics.resampling import Floats, resampled_sums, tails

#: With at most this number of differing tasks, all assignments of signs are tried.
_MOST_ENUMERATED = 12
#: With more differing tasks than this, and few different sizes, equal differences swap together.
_MANY_MOVED, _FEW_SIZES = 1_000, 256
#: With at most this number of tasks that move one way, a resample has too few kinds of tasks.
_FEW_MOVED = 12
#: Differences below this are rounding.
_TINY = 1e-12


def mean_over_tasks(values: Sequence[float], confidence: float, seed: int) -> Interval:
    """Return the mean with its bootstrap interval over tasks, never of width 0.

    See `difference_interval`; the values may have any size.
    """
    array = np.asarray(values, dtype=float)
    centre = float(array.mean())
    spread = _bounded(array - centre, float(np.abs(array).max()) or 1.0, confidence, seed)
    return Interval(centre, centre + spread.low, centre + spread.high)


def difference_interval(
    before: Sequence[float], after: Sequence[float], confidence: float, seed: int, span: float = 1.0
) -> Interval:
    """Return the mean of `after - before` with its bootstrap interval over tasks.

    One more task in each direction, as far away as the farthest task (divided by the root of 2),
    takes part in the resampling: few tasks say little about rare changes, and equal sides would
    have an interval of width 0. For one answer a task, this is Agresti and Min's adjustment (2005).
    Where at most 12 tasks move one way, the bound there reaches at least as far as the exact bound
    (Clopper and Pearson 1934) on their share, each of them moving as far as the farthest task:
    changes of few tasks may be missing in the sample. `span` is the largest possible difference; it
    counts if all tasks are equal.

    Raises:
        ValueError: the sides differ in length, or are empty.
    """
    if len(before) != len(after) or not len(before):
        raise ValueError(f"{len(before)} and {len(after)} values cannot be paired")
    difference = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    return _bounded(difference, span, confidence, seed)


def _bounded(difference: Floats, span: float, confidence: float, seed: int) -> Interval:
    units = with_far_tasks(difference, span)
    means = resampled_sums(units[:, None], seed)[:, 0] / len(units)
    low, high = np.quantile(means, tails(len(units), confidence))
    value, far = float(difference.mean()), _far(difference, span)
    num_up, num_down = _num_moved(difference)
    up, down = (far * _unseen(one, len(difference), confidence) for one in (num_up, num_down))
    return Interval(value, min(value - down, float(low)), max(value + up, float(high)))


def _unseen(num_moved: int, num_tasks: int, confidence: float) -> float:
    """Return the share of tasks that may move this way, unseen; 0 if many do."""
    return unseen_share(num_moved, num_tasks, confidence) if num_moved <= _FEW_MOVED else 0.0


def with_far_tasks(difference: Floats, span: float) -> Floats:
    """Return the differences with one more in each direction; see `difference_interval`."""
    far = _far(difference, span) / sqrt(2.0)
    return np.concatenate([difference, [far, -far]])


def _far(difference: Floats, span: float) -> float:
    farthest = float(np.abs(difference).max())
    return farthest if farthest > _TINY else span


def equivalence_p(
    before: Sequence[float], after: Sequence[float], margin: float, seed: int, span: float = 1.0
) -> float:
    """Return the larger p of the two one-sided tests that the difference is within `margin`.

    As in `difference_interval`, changes of few tasks have the exact p of so few at the margin.
    """
    difference = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    units = with_far_tasks(difference, span)
    means = resampled_sums(units[:, None], seed)[:, 0] / len(units)
    outside = max(int((means >= margin).sum()), int((means <= -margin).sum()))
    far = _far(difference, span)
    rare = (_rare_p(one / far, margin / far) for one in (difference, -difference))
    return max((outside + 1) / (len(means) + 1), *rare)


def _rare_p(difference: Floats, margin: float) -> float:
    """Return the chance that so few tasks move down if the mean is `-margin`; 0 if many do."""
    (_, num_down), num_tasks = _num_moved(difference), len(difference)
    if num_down > _FEW_MOVED:
        return 0.0
    share = num_down / num_tasks + float(difference.mean()) + margin
    return binomial_tail(num_tasks, min(1.0, max(0.0, share)), num_down)


def sign_flip_p(before: Sequence[float], after: Sequence[float], seed: int) -> float:
    """Return the two-sided p of the permutation test that swaps the sides of each task."""
    difference = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    moved = difference[np.abs(difference) > _TINY]
    if not len(moved):
        return 1.0
    found = abs(float(moved.sum()))
    if len(moved) <= _MOST_ENUMERATED:
        bits = (np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved))) & 1
        return float((np.abs((1 - 2 * bits) @ moved) >= found - 1e-9 * found).mean())

    def num_as_far(swaps: Swaps) -> int:
        sums = (1 - 2 * swaps.astype(float)) @ moved
        return int((np.abs(sums) >= found - 1e-9 * found).sum())

    values, sizes = np.unique(np.round(np.abs(moved), 12), return_counts=True)

    def num_of_groups(swapped: SwapCounts) -> int:
        sums = (sizes - 2 * swapped) @ values
        return int((np.abs(sums) >= found - 1e-9 * found).sum())

    # Hoeffding's bound (1963) is above the exact p. A sample of swaps has a smallest p.
    bound = 2 * exp(-(found**2) / (2 * float((moved**2).sum())))
    if bound < 1 / (2 * MOST_SWAPS):
        return bound  # below the smallest p of a sample
    if len(moved) > _MANY_MOVED and len(values) <= _FEW_SIZES:
        return min(bound, grouped_p(num_of_groups, sizes, seed))
    return min(bound, sampled_p(num_as_far, len(moved), seed))


def discordance(before: Sequence[float], after: Sequence[float]) -> tuple[int, int]:
    """Return the numbers of tasks with a higher and with a lower value on the second side."""
    difference = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    return _num_moved(difference)


def _num_moved(difference: Floats) -> tuple[int, int]:
    """Return the numbers of tasks that move up and down."""
    return int((difference > _TINY).sum()), int((difference < -_TINY).sum())
