"""Permutation tests that swap the two sides of tasks at random."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

#: A row for each permutation, a column for each task; 1 swaps the sides of a task.
Swaps = NDArray[np.int8]
#: A row for each permutation, a column for each group of tasks: how many of them are swapped.
SwapCounts = NDArray[np.int64]
_Drawn = TypeVar("_Drawn", Swaps, SwapCounts)
NUM_SWAPS = 20_000
#: With many tasks, fewer permutations do: their statistic is nearly normal.
_LEAST_SWAPS = 4_000
_FEWER_ENTRIES = 2**26
#: With fewer permutations as far as the one found, more are sampled: a small p must survive the
#: correction for many tests.
_FEW = 10
MOST_SWAPS = 200_000
_MOST_ENTRIES = 2**28
_BLOCK_ENTRIES = 2**22


def sampled_p(num_as_far: Callable[[Swaps], int], num_tasks: int, seed: int) -> float:
    """Return the p of a permutation test with random swaps.

    `num_as_far` returns the number of permutations whose statistic is at least as far from none as
    the one found.
    """
    rng = np.random.default_rng(seed)

    def draw(num: int) -> Swaps:
        return rng.integers(0, 2, size=(num, num_tasks), dtype=np.int8)

    return _share_as_far(num_as_far, draw, num_tasks)


def grouped_p(
    num_as_far: Callable[[SwapCounts], int], sizes: NDArray[np.int64], seed: int
) -> float:
    """Return the same p where tasks of a group have equal values: only their number counts."""
    rng = np.random.default_rng(seed)

    def draw(num: int) -> SwapCounts:
        return rng.binomial(sizes, 0.5, size=(num, len(sizes)))

    return _share_as_far(num_as_far, draw, len(sizes))


def _share_as_far(
    num_as_far: Callable[[_Drawn], int], draw: Callable[[int], _Drawn], num_columns: int
) -> float:
    num_done, num_far = 0, 0
    least = min(NUM_SWAPS, max(_LEAST_SWAPS, _FEWER_ENTRIES // num_columns))
    most = max(least, min(MOST_SWAPS, _MOST_ENTRIES // num_columns))
    block = max(1, min(least, _BLOCK_ENTRIES // num_columns))
    while num_done < least or (num_done < most and num_far < _FEW):
        num_far += num_as_far(draw(block))
        num_done += block
    return (num_far + 1) / (num_done + 1)
