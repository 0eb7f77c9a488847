"""Quantiles of the normal distribution and of Student's t; no numerics library."""

from statistics import NormalDist

_NORMAL = NormalDist()


def normal_quantile(share: float) -> float:
    """Return the standard normal quantile of `share`."""
    return _NORMAL.inv_cdf(share)


def normal_share(value: float) -> float:
    """Return the share of a standard normal distribution below `value`."""
    return _NORMAL.cdf(value)


def t_quantile(share: float, num_freedom: int) -> float:
    """Return the quantile of Student's t, by its expansion around the normal quantile.

    The expansion (Abramowitz and Stegun 26.7.5) is within 2% from three degrees of freedom on, for
    the usual levels.

    Raises:
        ValueError: no degree of freedom.
    """
    if num_freedom < 1:
        raise ValueError("Student's t needs a degree of freedom")
    z, n = normal_quantile(share), num_freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / n + second / n**2 + third / n**3 + fourth / n**4
