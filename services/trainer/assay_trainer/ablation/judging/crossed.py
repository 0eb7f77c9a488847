"""A mean over seeds and tasks that are crossed: each seed has a value for each task.

Model: D_st = mean + seed_s + task_t + rest_st, all random. It is the model of studies in which
several readers judge the same cases (Obuchowski and Rockette 1995). The variance of the mean is
(MS_seed + max(MS_task - MS_rest, 0)) / (S T), and the degrees of freedom of Student's t are those
of Hillis (Statistics in Medicine 26:596, 2007): the numerator squared over MS_seed^2 / (S - 1).
With little variance between tasks, that is S - 1: the seeds are the units. The seeds' mean square
cannot be below that of the rest but by chance, so it is raised to it.

Shapes: S seeds, T tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from assay_shared.statistics.interval import Interval
from assay_shared.statistics.power import POWER

Floats = NDArray[np.float64]
_TINY = 1e-12


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
        if self.error < _TINY:
            return 1.0 if abs(self.value) < _TINY else 0.0
        return float(2 * stats.t.sf(abs(self.value) / self.error, self.freedom))

    def detectable(self, alpha: float) -> float:
        """Return the smallest true mean that 80% of repeats would find."""
        t = stats.t
        return float((t.ppf(1 - alpha / 2, self.freedom) + t.ppf(POWER, self.freedom)) * self.error)


def crossed_mean(values_ST: Sequence[Sequence[float]] | Floats) -> CrossedMean:
    """Return the mean over seeds and tasks.

    With one seed, nothing is known of seeds, and the error is that of the tasks alone; with one
    task, that of the seeds.

    Raises:
        ValueError: there are fewer than two values.
    """
    table = np.asarray(values_ST, dtype=float)
    num_seeds, num_tasks = table.shape
    if table.size < 2:
        raise ValueError("an error needs at least two values")
    value = float(table.mean())
    if min(table.shape) == 1:
        line = table.ravel()
        error = float(line.std(ddof=1)) / sqrt(len(line))
        return CrossedMean(value, error, len(line) - 1, num_seeds, num_tasks)
    seeds, tasks = table.mean(axis=1), table.mean(axis=0)
    rest = table - seeds[:, None] - tasks[None, :] + value
    square_rest = float((rest**2).sum()) / ((num_seeds - 1) * (num_tasks - 1))
    square_seed = max(num_tasks * float(seeds.var(ddof=1)), square_rest)
    square_task = num_seeds * float(tasks.var(ddof=1))
    total = square_seed + max(square_task - square_rest, 0.0)
    freedom = inf if square_seed < _TINY else total**2 / (square_seed**2 / (num_seeds - 1))
    # Of tasks alone, there are no more degrees than tasks.
    freedom = min(freedom, num_seeds - 1 + num_tasks - 1)
    return CrossedMean(value, sqrt(total / table.size), freedom, num_seeds, num_tasks)
