"""Tails of the binomial distribution, and the exact McNemar test; no numerics library."""

from math import exp, inf, lgamma, log

#: A term below this share of the sum changes nothing.
_NEGLIGIBLE = 1e-17


def binomial_tail(num_trials: int, share: float, most: int) -> float:
    """Return the chance of at most `most` successes in `num_trials`, each with chance `share`."""
    if most < 0:
        return 0.0
    if most >= num_trials:
        return 1.0
    yes, no = (log(one) if one > 0 else -inf for one in (share, 1 - share))
    found = 0.0
    for i in range(most, -1, -1):
        term = exp(
            lgamma(num_trials + 1)
            - lgamma(i + 1)
            - lgamma(num_trials - i + 1)
            + _times(i, yes)
            + _times(num_trials - i, no)
        )
        found += term
        # Below the mean, each term is smaller than the one before.
        if term < _NEGLIGIBLE * found and i < num_trials * share:
            break
    return min(1.0, found)


def _times(number: int, logarithm: float) -> float:
    return number * logarithm if number else 0.0


def mcnemar_p(num_up: int, num_down: int) -> float:
    """Return the two-sided p of the exact McNemar test (McNemar 1947).

    `num_up` tasks turned right, and `num_down` turned wrong.
    """
    total = num_up + num_down
    return min(1.0, 2 * binomial_tail(total, 0.5, min(num_up, num_down))) if total else 1.0


def most_down(num_discordant: int, alpha: float) -> int | None:
    """Return the largest number of minority tasks with a significant McNemar test.

    None if no split of the discordant tasks is significant.
    """
    low, high = -1, num_discordant // 2
    # p grows with the minority: halve the range until the last significant number is left.
    while low < high:
        middle = (low + high + 1) // 2
        if mcnemar_p(num_discordant - middle, middle) < alpha:
            low = middle
        else:
            high = middle - 1
    return low if low >= 0 else None
