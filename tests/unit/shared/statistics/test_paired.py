"""Intervals and tests of paired differences; their coverage by simulation."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from assay_shared.statistics.binomial import mcnemar_p
from assay_shared.statistics.interval import Interval
from assay_shared.statistics.paired import (
    difference_interval,
    discordance,
    equivalence_p,
    mean_over_tasks,
    sign_flip_p,
)

NUM_TRIALS = 400
#: 95% less three standard errors of 400 trials.
LEAST_COVERAGE = 0.95 - 3 * (0.95 * 0.05 / NUM_TRIALS) ** 0.5


def coverage(truth: float, interval: Callable[[], Interval]) -> float:
    found = [interval() for _ in range(NUM_TRIALS)]
    assert all(one.high > one.low for one in found)
    return float(np.mean([one.low <= truth <= one.high for one in found]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_tasks", "up", "down"),
    [(20, 0.2, 0.1), (50, 0.02, 0.0), (164, 0.05, 0.05), (120, 0.0, 0.02), (200, 0.015, 0.0)],
)
def test_intervals_of_differences_of_single_answers_cover_the_truth(
    num_tasks: int, up: float, down: float
) -> None:
    rng = np.random.default_rng(1)

    def interval() -> Interval:
        moves = rng.choice([1.0, -1.0, 0.0], p=[up, down, 1 - up - down], size=num_tasks)
        return difference_interval([0.5] * num_tasks, (0.5 + moves).tolist(), 0.95, seed=0)

    assert coverage(up - down, interval) >= LEAST_COVERAGE


@pytest.mark.slow
@pytest.mark.parametrize(("num_tasks", "num_samples"), [(20, 4), (100, 16)])
def test_intervals_of_differences_of_several_samples_cover_the_truth(
    num_tasks: int, num_samples: int
) -> None:
    """Tasks are hard or easy, and the second policy is better at those between."""
    rng = np.random.default_rng(2)

    def draw(size: int) -> tuple[np.ndarray, np.ndarray]:
        before = rng.beta(0.4, 0.4, size=size)
        return before, before + 0.5 * before * (1 - before)

    many = draw(1_000_000)
    truth = float((many[1] - many[0]).mean())

    def interval() -> Interval:
        sides = [rng.binomial(num_samples, one) / num_samples for one in draw(num_tasks)]
        return difference_interval(sides[0].tolist(), sides[1].tolist(), 0.95, seed=0)

    assert coverage(truth, interval) >= LEAST_COVERAGE


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_sides_have_an_interval_with_a_width(value: float) -> None:
    """A plain bootstrap of 60 equal tasks would say that nothing can differ."""
    found = difference_interval([value] * 60, [value] * 60, 0.95, seed=0)
    assert found.value == 0.0
    assert found.low < -0.02
    assert found.high > 0.02
    tokens = mean_over_tasks([512.0] * 60, 0.95, seed=0)
    assert tokens.low < 512.0 < tokens.high


def test_sign_flips_of_single_answers_are_the_exact_mcnemar_test() -> None:
    before = [0.0] * 9 + [1.0] * 2 + [1.0] * 30
    after = [1.0] * 9 + [0.0] * 2 + [1.0] * 30
    assert discordance(before, after) == (9, 2)
    assert sign_flip_p(before, after, seed=0) == pytest.approx(mcnemar_p(9, 2))


def test_sampled_sign_flips_agree_with_scipy() -> None:
    rng = np.random.default_rng(3)
    before = rng.random(60)
    after = before + rng.normal(0.05, 0.2, size=60)
    expected = stats.permutation_test(
        (after - before,), np.mean, permutation_type="samples", n_resamples=20_000, rng=0
    ).pvalue
    assert sign_flip_p(before.tolist(), after.tolist(), seed=0) == pytest.approx(expected, abs=0.02)
    assert sign_flip_p([0.5] * 5, [0.5] * 5, seed=0) == 1.0


@pytest.mark.slow
def test_equal_policies_are_found_different_in_five_percent_of_trials() -> None:
    rng = np.random.default_rng(4)
    found = []
    for _ in range(NUM_TRIALS):
        abilities = rng.beta(0.5, 0.5, size=80)
        sides = [(rng.binomial(4, abilities) / 4).tolist() for _ in range(2)]
        found.append(sign_flip_p(sides[0], sides[1], seed=0) < 0.05)
    assert 0.02 <= np.mean(found) <= 0.085


def test_equivalence_is_shown_by_many_tasks_and_not_by_few() -> None:
    few = equivalence_p([1.0] * 30, [1.0] * 30, margin=0.02, seed=0)
    many = equivalence_p([1.0] * 1000, [1.0] * 1000, margin=0.02, seed=0)
    assert few > 0.05 > many


def test_few_changes_are_within_a_margin_by_their_exact_chance() -> None:
    """120 tasks of which 1.2% turn wrong show none of them in 23% of samples."""
    equal = [1.0] * 120
    assert equivalence_p(equal, equal, margin=0.012, seed=0) == pytest.approx(0.988**120)
    one_wrong = [0.0, *equal[1:]]
    exact = stats.binom.cdf(1, 120, 0.05)
    assert equivalence_p(equal, one_wrong, margin=0.05, seed=0) == pytest.approx(exact)
    assert equivalence_p(one_wrong, equal, margin=0.05, seed=0) == pytest.approx(exact)


def test_a_bound_reaches_the_exact_share_of_changes_that_few_tasks_show() -> None:
    wrong = [0.0] * 3 + [1.0] * 117
    found = difference_interval([1.0] * 120, wrong, 0.95, seed=0)
    assert -found.low >= stats.binomtest(3, 120).proportion_ci(method="exact").high - 1e-9
    assert found.high >= stats.binomtest(0, 120).proportion_ci(method="exact").high - 3 / 120 - 1e-9


def test_sides_of_different_length_cannot_be_paired() -> None:
    with pytest.raises(ValueError, match="2 and 1 values"):
        difference_interval([0.0, 1.0], [1.0], 0.95, seed=0)
