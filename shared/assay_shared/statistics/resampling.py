"""Bootstrap resamples of tasks: sums of columns over tasks drawn with replacement."""

from collections.abc import Iterator
from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from assay_shared.statistics.quantiles import normal_share, t_quantile

NUM_RESAMPLES = 5_000
_BLOCK_ENTRIES = 2**22
#: Counts of more entries (a byte each) are drawn again for each use.
_KEPT_ENTRIES = 2**27
#: With more tasks than this, and few different rows, equal rows are drawn together.
_MANY_TASKS = 2_000
_FEW_ROWS = 256

Floats = NDArray[np.float64]


def resampled_sums(columns: Floats, seed: int) -> Floats:
    """Return the sum of each column over each resample of the rows.

    `columns` has a row for each task. The result has a row for each of `NUM_RESAMPLES` resamples.
    The same columns and the same seed draw the same resamples.
    """
    num_tasks = len(columns)
    if num_tasks > _MANY_TASKS:
        rows, sizes = np.unique(columns, axis=0, return_counts=True)
        if len(rows) <= _FEW_ROWS:
            return _grouped_sums(rows, sizes, seed)
    if num_tasks * NUM_RESAMPLES <= _KEPT_ENTRIES:
        counts: Iterator[NDArray[np.uint8]] = iter(_kept(num_tasks, seed))
    else:
        counts = _drawn(num_tasks, seed)
    return np.concatenate([block.astype(np.float64) @ columns for block in counts])


def _grouped_sums(rows: Floats, sizes: NDArray[np.int64], seed: int) -> Floats:
    """Return the sums over resamples of groups of equal rows.

    How often each group is drawn is multinomial: the work is that of the groups, not of the tasks.
    """
    num_tasks = int(sizes.sum())
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(num_tasks, sizes / num_tasks, size=NUM_RESAMPLES)
    sums: Floats = counts.astype(np.float64) @ rows
    return sums


def resampled_quantiles(columns: Floats, quantile: float, seed: int) -> Floats:
    """Return a quantile of each column over each resample of the rows; see `resampled_sums`.

    The quantile is the smallest value with at least that share of the tasks at or below it.
    """
    num_tasks = len(columns)
    orders = np.argsort(columns, axis=0, kind="stable")
    found = []
    for block in _drawn(num_tasks, seed):
        sides = []
        for column, order in zip(columns.T, orders.T, strict=True):
            below = block[:, order].cumsum(axis=1, dtype=np.int64)
            places = (below >= quantile * num_tasks).argmax(axis=1)
            sides.append(column[order][places])
        found.append(np.column_stack(sides))
    return np.concatenate(found)


@lru_cache(maxsize=2)
def _kept(num_tasks: int, seed: int) -> tuple[NDArray[np.uint8], ...]:
    return tuple(_drawn(num_tasks, seed))


def _drawn(num_tasks: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    """Yield how often each task is in each resample, in blocks of resamples."""
    rng = np.random.default_rng(seed)
    block = max(1, min(NUM_RESAMPLES, _BLOCK_ENTRIES // num_tasks))
    for begin in range(0, NUM_RESAMPLES, block):
        size = min(block, NUM_RESAMPLES - begin)
        picked = rng.integers(0, num_tasks, size=(size, num_tasks))
        picked += np.arange(size)[:, None] * num_tasks
        counts = np.bincount(picked.ravel(), minlength=size * num_tasks)
        # A task is drawn once on average; more than 255 times is out of the question.
        yield counts.reshape(size, num_tasks).astype(np.uint8)


def tails(num_tasks: int, confidence: float) -> tuple[float, float]:
    """Return the shares of resamples below the two bounds of an interval.

    They are wider than the plain percentiles, as Student's t is wider than the normal: a plain
    percentile interval is too short for few tasks (Hesterberg 2015, the expanded percentiles).
    """
    if num_tasks < 2:
        return 0.0, 1.0
    t = t_quantile((1.0 - confidence) / 2.0, num_tasks - 1)
    low = normal_share(t * sqrt(num_tasks / (num_tasks - 1)))
    return low, 1.0 - low
