"""A mean over seeds and tasks that are crossed: each seed has a value for each task.

Model: D_st = mean + seed_s + task_t + rest_st, all random. It is the model of studies in which
several readers judge the same cases (Obuchowski and Rockette 1995). The variance of the mean is
(MS_seed + max(MS_task - MS_rest, 0)) / (S T), and the degrees of freedom of Student's t are those
of Hillis (Statistics in Medicine 26:596, 2007): the numerator squared over MS_seed^2 / (S - 1).
With little variance between tasks, that is S - 1: the seeds are the units. The seeds' mean square
cannot be below that of the rest but by chance, so it is raised to it.

Equal tasks tell little of tasks that were not drawn. Two more tasks, as far from the median as the
farthest one, take part in the variance between tasks (`with_far_tasks`), so no interval has a width
of 0. Seeds repeat the differences of single tasks, and Student's t is too narrow where few tasks
differ. So the degrees of freedom are at most the number of differing tasks less 1, or 3 if that is
larger. With 3 degrees, tasks that are all equal have an interval of about 3 / T to both sides, as
by the rule of three.

Shapes: S seeds, T tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from assay_shared.statistics.interval import Interval
from assay_shared.statistics.paired import with_far_tasks
from assay_shared.statistics.power import POWER

Floats = NDArray[np.float64]
_TINY = 1e-12
_DIGITS = 12
#: Degrees of freedom where few tasks differ, or none.
_LEAST_FREEDOM = 3


@dataclass(frozen=True)
class CrossedMean:
    """A mean with its standard error and the degrees of freedom of its t."""

    value: float
    error: float
    freedom: float
    num_seeds: int
    num_tasks: int

    def interval(self, confidence: float) -> Interval:
        """Return the mean with its interval of Student's t."""
        half = float(stats.t.ppf((1 + confidence) / 2, self.freedom)) * self.error
        return Interval(self.value, self.value - half, self.value + half)

    @property
    def p(self) -> float:
        """The two-sided p of a mean of 0."""
        return float(2 * stats.t.sf(abs(self.value) / self.error, self.freedom))

    def detectable(self, alpha: float) -> float:
        """Return the smallest true mean that 80% of repeats would find."""
        t = stats.t
        return float((t.ppf(1 - alpha / 2, self.freedom) + t.ppf(POWER, self.freedom)) * self.error)


def crossed_mean(values_ST: Sequence[Sequence[float]] | Floats, span: float = 1.0) -> CrossedMean:
    """Return the mean over seeds and tasks.

    With one seed, nothing is known of seeds, and the error is that of the tasks alone; with one
    task, that of the seeds. `span` is the largest possible difference between two values; it
    counts if all are 0.

    Raises:
        ValueError: there are fewer than two values.
    """
    table = np.asarray(values_ST, dtype=float)
    num_seeds, num_tasks = table.shape
    if table.size < 2:
        raise ValueError("an error needs at least two values")
    value = float(table.mean())
    if min(table.shape) == 1:
        variance, freedom = _spread(table.ravel(), span)
        return CrossedMean(value, sqrt(variance / table.size), freedom, num_seeds, num_tasks)
    seeds, tasks = table.mean(axis=1), table.mean(axis=0)
    rest = table - seeds[:, None] - tasks[None, :] + value
    square_rest = float((rest**2).sum()) / ((num_seeds - 1) * (num_tasks - 1))
    square_seed = max(num_tasks * float(seeds.var(ddof=1)), square_rest)
    variance, most = _spread(tasks, span)
    total = square_seed + max(num_seeds * variance - square_rest, 0.0)
    hillis = inf if square_seed < _TINY else total**2 / (square_seed**2 / (num_seeds - 1))
    return CrossedMean(value, sqrt(total / table.size), min(hillis, most), num_seeds, num_tasks)


def span_of(*tables: Floats) -> float:
    """Return the largest difference that two values could have: 1 of shares."""
    low, high = min(float(one.min()) for one in tables), max(float(one.max()) for one in tables)
    return max(1.0, high - min(low, 0.0))


def _spread(line: Floats, span: float) -> tuple[float, int]:
    """Return the variance with two far tasks, and the most degrees of freedom.

    Equal values are as far away as 0 is, and values of 0 as far as `span`.
    """
    middle = float(np.median(line))
    far = abs(middle) if abs(middle) > _TINY else span
    units = with_far_tasks(line - middle, far)
    _, sizes = np.unique(line.round(_DIGITS), return_counts=True)
    num_differing = len(line) - int(sizes.max())
    most = max(_LEAST_FREEDOM, num_differing - 1)
    return float(units.var(ddof=1)), min(len(line) - 1, most)
