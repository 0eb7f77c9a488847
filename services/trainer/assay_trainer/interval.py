"""An estimate with its interval; who only shows one needs no numerics."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """An estimate with the interval that covers it at the stated confidence."""

    value: float
    low: float
    high: float
