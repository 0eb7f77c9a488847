"""Permutation tests by chance."""

import numpy as np
import pytest

from assay_shared.statistics import permutation
from assay_shared.statistics.permutation import NUM_SWAPS, Swaps, grouped_p, sampled_p


def test_the_p_is_the_share_of_permutations_as_far() -> None:
    def as_far(swaps: Swaps) -> int:
        return int((swaps.sum(axis=1) >= 60).sum())

    assert sampled_p(as_far, 100, seed=0) == pytest.approx(0.0284, abs=0.005)


def test_a_small_p_gets_more_permutations_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A p of 1 / 20,001 could not survive a correction for 1,001 tests."""
    shapes: list[int] = []

    def never(swaps: Swaps) -> int:
        shapes.append(len(swaps))
        return 0

    assert sampled_p(never, 50, seed=0) < 0.05 / 1001
    assert sum(shapes) >= 200_000
    shapes.clear()
    monkeypatch.setattr(permutation, "_MOST_ENTRIES", 1)
    assert sampled_p(never, 50, seed=0) == pytest.approx(1 / NUM_SWAPS, rel=0.1)


def test_the_same_seed_swaps_alike() -> None:
    seen: list[np.ndarray] = []

    def keep(swaps: Swaps) -> int:
        seen.append(swaps.copy())
        return len(swaps)

    sampled_p(keep, 7, seed=3)
    first = seen.pop()
    sampled_p(keep, 7, seed=3)
    assert (seen.pop() == first).all()


def test_groups_of_equal_tasks_have_the_same_p() -> None:
    def as_far(swapped: np.ndarray) -> int:
        return int((swapped.sum(axis=1) >= 60).sum())

    assert grouped_p(as_far, np.array([40, 60]), seed=0) == pytest.approx(0.0284, abs=0.005)
