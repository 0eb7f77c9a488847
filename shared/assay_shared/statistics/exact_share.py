"""Exact intervals of shares, and what few tasks may leave unseen; no numerics library."""

from functools import lru_cache

from assay_shared.statistics.binomial import binomial_tail
from assay_shared.statistics.interval import Interval

_ROUNDING = 1e-12


def exact_interval(num_successes: int, num_trials: int, confidence: float) -> Interval:
    """Return a share with its exact interval (Clopper and Pearson 1934).

    Wilson's interval keeps its confidence on average over all true shares, this one at each of
    them. With few trials, or a true share near 0 or 1, Wilson's may miss six times as often.

    Raises:
        ValueError: the two numbers are not a share.
    """
    if not 0 <= num_successes <= num_trials or not num_trials:
        raise ValueError(f"{num_successes} of {num_trials} is not a share")
    low = 1.0 - _highest_share(num_trials - num_successes, num_trials, confidence)
    high = _highest_share(num_successes, num_trials, confidence)
    return Interval(num_successes / num_trials, low, high)


def unseen_share(num_seen: int, num_tasks: int, confidence: float) -> float:
    """Return how far the true share may lie above the seen one, by its exact bound."""
    return _highest_share(num_seen, num_tasks, confidence) - num_seen / num_tasks


def reaching_unseen(
    found: Interval, num_tasks: int, ends: tuple[float, float], confidence: float
) -> Interval:
    """Return an interval of a mean, widened by the extreme tasks that the sample may lack.

    A resample of the tasks knows no task that was not drawn. Each bound reaches at least as far as
    the mean would move if the largest share of tasks that so small a sample may well show none of
    were at that end of the values.

    Args:
        ends: the lowest and the highest value that a task can have.
    """
    unseen = unseen_share(0, num_tasks, confidence)
    low, high = (found.value + unseen * (end - found.value) for end in ends)
    return Interval(
        found.value, max(ends[0], min(found.low, low)), min(ends[1], max(found.high, high))
    )


@lru_cache(maxsize=4096)
def _highest_share(num_successes: int, num_trials: int, confidence: float) -> float:
    """Return the true share of which so few successes have half of the remaining chance."""
    if num_successes == num_trials:
        return 1.0
    tail = (1.0 - confidence) / 2.0
    low, high = num_successes / num_trials, 1.0
    while high - low > _ROUNDING:
        middle = (low + high) / 2.0
        if binomial_tail(num_trials, middle, num_successes) > tail:
            low = middle
        else:
            high = middle
    return high
