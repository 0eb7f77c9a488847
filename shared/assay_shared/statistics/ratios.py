"""Ratios of sums over tasks: costs for each solved task, relative changes, and their intervals."""

from dataclasses import dataclass
from math import exp, inf, log

import numpy as np

from assay_shared.statistics.interval import Interval
from assay_shared.statistics.permutation import Swaps, sampled_p
from assay_shared.statistics.resampling import Floats, resampled_sums, tails


@dataclass(frozen=True)
class RatioColumns:
    """A numerator and a denominator for each task: tokens and solved samples, for example.

    A mean is the ratio to a denominator of 1 for each task.
    """

    numerator: Floats
    denominator: Floats

    @property
    def value(self) -> float:
        """The ratio of the sums; infinite without a denominator."""
        below = float(self.denominator.sum())
        return float(self.numerator.sum()) / below if below > 0 else inf


def relative_interval(
    before: RatioColumns, after: RatioColumns, confidence: float, seed: int
) -> Interval | None:
    """Return the relative change of the ratio with its bootstrap interval over tasks.

    0.1 is 10% more. None if the change has no value: a side has no denominator, or the first side
    is 0. Two more tasks take part in the resampling, each solved by half on one side, so that the
    interval of few solved tasks is not too short.
    """
    old, new = before.value, after.value
    if not (0 < old < inf) or new == inf:
        return None
    ratios = _resampled_quotients(before, after, seed)
    low, high = _quantiles(ratios, len(before.numerator) + 2, confidence)
    value = new / old
    return Interval(value - 1, min(value, low) - 1, max(value, high) - 1)


def relative_equivalence_p(
    before: RatioColumns, after: RatioColumns, margin: float, seed: int
) -> float:
    """Return the larger p of the two one-sided tests that the relative change is within `margin`.

    The ratio is to lie between 1 / (1 + margin) and 1 + margin.
    """
    ratios = _resampled_quotients(before, after, seed)
    above, below = (ratios >= 1 + margin).sum(), (ratios <= 1 / (1 + margin)).sum()
    return (max(int(above), int(below)) + 1) / (len(ratios) + 1)


def _resampled_quotients(before: RatioColumns, after: RatioColumns, seed: int) -> Floats:
    # The extra task of each side goes to another row: half a task solved by one side alone.
    first, second = _with_half(before, place=0), _with_half(after, place=1)
    sums = resampled_sums(np.column_stack([*first, *second]), seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (sums[:, 2] * sums[:, 1]) / (sums[:, 3] * sums[:, 0])
    # 0 / 0: nothing is known of such a resample, so it counts as no change.
    return np.nan_to_num(ratios, nan=1.0, posinf=inf)


def _quantiles(ratios: Floats, num_units: int, confidence: float) -> tuple[float, float]:
    """Return the bounds; order statistics, because an infinite ratio cannot be interpolated."""
    found = np.quantile(ratios, tails(num_units, confidence), method="inverted_cdf")
    return float(found[0]), float(found[1])


def _with_half(columns: RatioColumns, place: int = 0) -> tuple[Floats, Floats]:
    """Return the columns with two more tasks: half of a largest value in the rarer column.

    The rarer column is the one with zeros: solved samples of a cost, errors of a share.
    """
    numerator, denominator = columns.numerator, columns.denominator
    half = [0.0, 0.0]
    if bool((numerator == 0).any()) and not bool((denominator == 0).any()):
        half[place] = (float(numerator.max()) or 1.0) / 2
        return np.append(numerator, half), np.append(denominator, [denominator.mean()] * 2)
    half[place] = (float(denominator.max()) or 1.0) / 2
    return np.append(numerator, [numerator.mean()] * 2), np.append(denominator, half)


def label_swap_p(before: RatioColumns, after: RatioColumns, seed: int) -> float:
    """Return the two-sided p of the permutation test that swaps the sides of each task.

    The statistic is the logarithm of the quotient of the two ratios.
    """
    found = _distance(before.value, after.value)
    sides = [before.numerator, before.denominator, after.numerator, after.denominator]
    totals = np.array([float(one.sum()) for one in sides])
    # A swap moves the difference of the sides from one sum to the other.
    moves = np.column_stack([sides[2] - sides[0], sides[3] - sides[1]])

    def num_as_far(swaps: Swaps) -> int:
        moved = swaps.astype(float) @ moves
        old_top, old_below = totals[0] + moved[:, 0], totals[1] + moved[:, 1]
        new_top, new_below = totals[2] - moved[:, 0], totals[3] - moved[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.abs(np.log(new_top * old_below) - np.log(new_below * old_top))
        return int((np.nan_to_num(far, nan=inf, posinf=inf) >= found - 1e-9).sum())

    return sampled_p(num_as_far, len(moves), seed)


def _distance(old: float, new: float) -> float:
    if old == new:
        return 0.0
    return abs(log(new / old)) if 0 < old < inf and 0 < new < inf else inf


def log_error(interval: Interval, z: float) -> float:
    """Return the standard error of the ratio's logarithm, from the interval of a relative change.

    `z` is the normal quantile of the interval's confidence.
    """
    if interval.low <= -1 or interval.high == inf:
        return inf
    return (log(1 + interval.high) - log(1 + interval.low)) / (2 * z)


def relative_of(error: float) -> float:
    """Return the relative change at a distance of the ratio's logarithm; infinite if too large."""
    return exp(error) - 1 if error < 100 else inf
