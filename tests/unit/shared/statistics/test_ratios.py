"""Ratios of sums, and their coverage by simulation."""

from math import inf

import numpy as np
import pytest
from scipy.stats import norm

from assay_shared.statistics.ratios import (
    RatioColumns,
    label_swap_p,
    log_error,
    relative_equivalence_p,
    relative_interval,
)

NUM_TRIALS = 300
LEAST_COVERAGE = 0.95 - 3 * (0.95 * 0.05 / NUM_TRIALS) ** 0.5


def policy(
    rng: np.random.Generator, hardness: np.ndarray, share: float, tokens: float
) -> RatioColumns:
    """Return tokens and solved tasks; hard tasks take more tokens and are solved less often."""
    size = len(hardness)
    ability = (hardness + rng.normal(size=size)) / np.sqrt(2)
    solved = (ability < norm.ppf(share)).astype(float)
    return RatioColumns(tokens * np.exp(0.3 * hardness + 0.3 * rng.normal(size=size)), solved)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_tasks", "before", "after"), [(50, 0.5, 0.6), (164, 0.05, 0.1), (164, 0.9, 0.95)]
)
def test_intervals_of_changes_of_costs_cover_the_truth(
    num_tasks: int, before: float, after: float
) -> None:
    rng = np.random.default_rng(1)
    truth = 1.2 * before / after - 1
    covered = []
    for _ in range(NUM_TRIALS):
        hardness = rng.normal(size=num_tasks)
        sides = policy(rng, hardness, before, 100), policy(rng, hardness, after, 120)
        found = relative_interval(*sides, 0.95, seed=0)
        if found is not None:
            covered.append(found.low <= truth <= found.high)
    assert np.mean(covered) >= LEAST_COVERAGE


def test_a_cost_of_nothing_solved_is_infinite_and_has_no_change() -> None:
    nothing = RatioColumns(np.full(20, 100.0), np.zeros(20))
    some = RatioColumns(np.full(20, 100.0), np.array([1.0] + [0.0] * 19))
    assert nothing.value == inf
    assert relative_interval(some, nothing, 0.95, seed=0) is None
    assert relative_interval(nothing, some, 0.95, seed=0) is None


def test_errors_that_vanish_have_an_interval_with_a_width() -> None:
    """Of 3 errors none is left: the share fell by 100%, but maybe by less."""
    ones = np.ones(100)
    before = RatioColumns(np.array([1.0] * 3 + [0.0] * 97), ones)
    after = RatioColumns(np.zeros(100), ones)
    found = relative_interval(before, after, 0.95, seed=0)
    assert found is not None
    assert found.value == -1.0
    assert found.high > -0.5


def test_swapped_labels_find_a_large_change_and_not_chance() -> None:
    rng = np.random.default_rng(2)
    hardness = rng.normal(size=100)
    before, same = (policy(rng, hardness, 0.5, 100) for _ in range(2))
    assert label_swap_p(before, policy(rng, hardness, 0.5, 200), seed=0) < 0.001
    assert label_swap_p(before, same, seed=0) > 0.05
    assert label_swap_p(before, before, seed=0) == 1.0


def test_equal_costs_are_the_same_within_a_wide_margin_alone() -> None:
    rng = np.random.default_rng(3)
    columns = RatioColumns(100 * np.exp(0.2 * rng.normal(size=300)), np.ones(300))
    assert relative_equivalence_p(columns, columns, 0.05, seed=0) < 0.05
    few = RatioColumns(columns.numerator, (rng.random(300) < 0.1).astype(float))
    other = RatioColumns(columns.numerator, (rng.random(300) < 0.1).astype(float))
    assert relative_equivalence_p(few, other, 0.05, seed=0) > 0.05


def test_an_unbounded_change_has_an_infinite_error() -> None:
    found = relative_interval(
        RatioColumns(np.ones(30), np.array([1.0] + [0.0] * 29)),
        RatioColumns(np.ones(30), np.array([0.0, 1.0] + [0.0] * 28)),
        0.95,
        seed=0,
    )
    assert found is not None
    assert log_error(found, 1.96) == inf
