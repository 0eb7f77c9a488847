"""Differences that a number of tasks can show, and tasks that a decision needs."""

from functools import lru_cache
from math import ceil, inf

from assay_shared.statistics.binomial import binomial_tail, most_down
from assay_shared.statistics.interval import Interval
from assay_shared.statistics.quantiles import normal_quantile

#: The usual share of repeats in which a true difference should be found.
POWER = 0.8
MOST_TASKS = 1_000_000
#: More discordant tasks than this are nearly as many in each repeat.
_MANY = 60
_ROUNDING = 1e-6
#: Two ends of a Wilson interval have the same spread, to this share of it.
_SAME = 1e-3


def smallest_significant(num_tasks: int, num_discordant: int, alpha: float) -> float | None:
    """Return the smallest difference of shares that the exact McNemar test calls significant.

    None if no split of the discordant tasks is significant.
    """
    minority = most_down(num_discordant, alpha)
    return None if minority is None else (num_discordant - 2 * minority) / num_tasks


def detectable_share(num_tasks: int, num_discordant: int, alpha: float) -> float | None:
    """Return the smallest true difference found in 80% of repeats by the exact McNemar test.

    The number of discordant tasks stays as it is, or grows to the difference if that is larger.
    None if no difference could be found.
    """
    low, high = 1, num_tasks + 1
    while low < high:
        middle = (low + high) // 2
        if _mcnemar_power(num_tasks, max(num_discordant, middle), middle, alpha) >= POWER:
            high = middle
        else:
            low = middle + 1
    return low / num_tasks if low <= num_tasks else None


def _mcnemar_power(num_tasks: int, num_discordant: int, num_net: int, alpha: float) -> float:
    """Return the chance of a significant result in favour of the larger side."""
    share_down = (1 - num_net / num_discordant) / 2
    if num_discordant > _MANY:
        return _power_given(num_discordant, share_down, alpha)
    # Few discordant tasks vary in number from repeat to repeat.
    share, found, below = num_discordant / num_tasks, 0.0, 0.0
    for number in range(min(num_tasks, 3 * num_discordant + 10) + 1):
        up_to = binomial_tail(num_tasks, share, number)
        found += (up_to - below) * _power_given(number, share_down, alpha)
        below = up_to
    return found


def _power_given(num_discordant: int, share_down: float, alpha: float) -> float:
    minority = _most_down(num_discordant, alpha)
    return 0.0 if minority is None else binomial_tail(num_discordant, share_down, minority)


_most_down = lru_cache(maxsize=1024)(most_down)


def detectable(error: float, alpha: float) -> float:
    """Return the smallest true difference found in 80% of repeats, for a mean's standard error."""
    return (normal_quantile(1 - alpha / 2) + normal_quantile(POWER)) * error


def standard_error(interval: Interval, confidence: float) -> float:
    """Return the standard error behind an interval."""
    return (interval.high - interval.low) / (2 * normal_quantile((1 + confidence) / 2))


def tasks_to_decide(interval: Interval, bounds: tuple[float, ...], num_tasks: int) -> int | None:
    """Return the number of tasks whose interval would exclude the nearest bound.

    Value and spread are taken to stay as they are. None if over a million tasks would be needed.
    """
    nearest = min(bounds, key=lambda bound: abs(interval.value - bound))
    distance = abs(interval.value - nearest)
    below, above = interval.value - interval.low, interval.high - interval.value
    half = below if nearest < interval.value else above
    spread = _wilson_spread(interval)
    if distance == 0 or half == inf:
        return None
    if spread is not None and 0 < nearest < 1:
        needed = num_tasks * spread * nearest * (1 - nearest) / distance**2
    else:
        needed = num_tasks * (half / distance) ** 2
    # Rounding must not add a task to a whole number.
    return max(num_tasks + 1, ceil(needed - _ROUNDING)) if needed <= MOST_TASKS else None


def _wilson_spread(interval: Interval) -> float | None:
    """Return z squared by the number of trials of a Wilson interval; None of another interval.

    Wilson's interval of a share p has each t with (p - t)**2 <= spread * t * (1 - t). It is not
    symmetric, so near 0 and 1 it does not shrink with the root of the number.
    """
    found: list[float] = []
    for end in (interval.low, interval.high):
        if 0 < end < 1:
            found.append((interval.value - end) ** 2 / (end * (1 - end)))
        elif end != interval.value or end not in (0, 1):
            return None
    return found[0] if found and max(found) - min(found) <= _SAME * max(found) else None
