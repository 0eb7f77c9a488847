"""The test over seeds and tasks: its rate of false alarms by A/A arms, and its power."""

import numpy as np
import pytest
from scipy import stats

from assay_trainer.ablation.judging.crossed import Floats, crossed_mean, span_of

NUM_TASKS = 60


def arm(
    rng: np.random.Generator, rates: Floats, num_seeds: int, spread: float, gain: float = 0.0
) -> Floats:
    """Four samples a task; each seed has its own luck, in all tasks."""
    luck = rng.normal(gain, spread, size=(num_seeds, 1))
    shares: Floats = rng.binomial(4, np.clip(rates[None, :] + luck, 0, 1)) / 4
    return shares


def share_found(num_seeds: int, spread: float, gain: float, num_repeats: int = 400) -> float:
    rng, num_found = np.random.default_rng(5), 0
    for _ in range(num_repeats):
        rates = rng.beta(0.6, 0.6, size=NUM_TASKS)
        first = arm(rng, rates, num_seeds, spread)
        second = arm(rng, rates, num_seeds, spread, gain)
        num_found += crossed_mean(second - first).p < 0.05
    return num_found / num_repeats


@pytest.mark.parametrize("num_seeds", [4, 8])
@pytest.mark.parametrize("spread", [0.0, 0.03, 0.1])
def test_equal_arms_are_called_different_in_at_most_five_per_cent(
    num_seeds: int, spread: float
) -> None:
    """Of 400 repeats; 7.5% is the upper end of the interval around 5%."""
    assert share_found(num_seeds, spread, 0.0) <= 0.075


def test_a_test_over_tasks_alone_would_call_equal_arms_different() -> None:
    """Why the seeds are the units: pooled within tasks, their luck looks like an effect."""
    rng, num_found = np.random.default_rng(5), 0
    for _ in range(200):
        rates = rng.beta(0.6, 0.6, size=NUM_TASKS)
        gaps = (arm(rng, rates, 4, 0.1) - arm(rng, rates, 4, 0.1)).mean(axis=0)
        num_found += stats.ttest_1samp(gaps, 0.0).pvalue < 0.05
    assert num_found / 200 > 0.25


def test_a_large_difference_is_found_in_most_repeats() -> None:
    assert share_found(4, 0.03, 0.15) > 0.9


def test_the_detectable_difference_is_found_in_about_80_of_100_repeats() -> None:
    rng, repeats = np.random.default_rng(9), 200
    errors = []
    for _ in range(repeats):
        rates = rng.beta(0.6, 0.6, size=NUM_TASKS)
        gaps = arm(rng, rates, 6, 0.05) - arm(rng, rates, 6, 0.05)
        errors.append(crossed_mean(gaps).detectable(0.05))
    found = share_found(6, 0.05, float(np.median(errors)), repeats)
    assert 0.65 < found < 0.95


def sparse(
    rng: np.random.Generator, num_tasks: int, num_differing: int, repeats: float, up: float = 0.5
) -> Floats:
    """Return differences of four seeds: the seeds repeat the few tasks that differ."""
    ways = np.where(rng.random(num_differing) < up, 1, -1) * rng.integers(1, 5, num_differing) / 4
    table = np.zeros((4, num_tasks))
    table[:, :num_differing] = ways * (rng.random((4, num_differing)) < repeats)
    return table


@pytest.mark.parametrize("num_tasks", [10, 24, 60])
@pytest.mark.parametrize("repeats", [1.0, 0.5])
def test_few_differing_tasks_are_called_a_difference_in_at_most_five_per_cent(
    num_tasks: int, repeats: float
) -> None:
    """By the number of differing tasks; 7.5% of 400 repeats, as above."""
    for num_differing in (2, 4, 5, 7, 10):
        rng = np.random.default_rng(num_differing)
        tables = (sparse(rng, num_tasks, num_differing, repeats) for _ in range(400))
        assert sum(crossed_mean(one).p < 0.05 for one in tables) <= 0.075 * 400


@pytest.mark.parametrize("num_tasks", [12, 24, 60, 200])
def test_equal_steps_in_one_direction_are_no_surer_than_the_exact_sign_test(num_tasks: int) -> None:
    """Six tasks are below 0.05 by the exact test, and five are not."""
    for num_differing in range(1, 13):
        table = np.zeros((4, num_tasks))
        table[:, :num_differing] = 0.25
        exact = stats.binomtest(num_differing, num_differing).pvalue
        assert crossed_mean(table).p >= 0.05 or exact < 0.05
    assert crossed_mean(table).p < 0.05


@pytest.mark.parametrize("expected", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("num_tasks", [12, 60])
def test_the_interval_of_rare_differences_has_the_true_one(num_tasks: int, expected: float) -> None:
    """Each side misses at most 2.5%; 5.5% is far above the upper end for 400 repeats.

    Nine of ten differing tasks are better, by 0.625 on average.
    """
    rng, true = np.random.default_rng(3), 0.8 * 0.625 * expected / num_tasks
    num_above, num_below = 0, 0
    for _ in range(400):
        number = rng.binomial(num_tasks, expected / num_tasks)
        interval = crossed_mean(sparse(rng, num_tasks, number, 1.0, up=0.9)).interval(0.95)
        num_above += interval.low > true
        num_below += interval.high < true
    assert max(num_above, num_below) <= 0.055 * 400


@pytest.mark.parametrize("num_tasks", [24, 60, 500])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_tasks_have_the_interval_of_the_rule_of_three(num_tasks: int, value: float) -> None:
    for num_seeds in (1, 4):
        interval = crossed_mean(np.full((num_seeds, num_tasks), value)).interval(0.95)
        assert interval.value == value
        assert num_tasks * (interval.high - value) == pytest.approx(3.1, abs=0.1)
        assert num_tasks * (value - interval.low) == pytest.approx(3.1, abs=0.1)
    costs = crossed_mean(np.zeros((4, num_tasks)), span_of(np.full((4, num_tasks), 300.0)))
    assert num_tasks * costs.interval(0.95).high == pytest.approx(930, abs=30)


def test_equal_tasks_have_no_effect_and_two_tasks_decide_nothing() -> None:
    assert crossed_mean(np.zeros((4, 10))).p == 1.0
    assert crossed_mean(np.full((4, 10), 0.5)).p < 0.01
    assert crossed_mean(np.full((4, 2), 0.5)).p > 0.05


def test_the_interval_and_p_agree() -> None:
    table = np.random.default_rng(1).normal(0.2, 1, size=(5, 30))
    found = crossed_mean(table)
    interval = found.interval(1 - found.p)
    assert min(abs(interval.low), abs(interval.high)) == pytest.approx(0.0, abs=1e-9)


def test_with_one_seed_the_error_is_that_of_the_tasks_alone() -> None:
    line = np.arange(40.0)
    found = crossed_mean(line[None, :])
    assert found.error == pytest.approx(line.std(ddof=1) / 40**0.5, rel=0.02)
    assert (found.num_seeds, found.freedom) == (1, 38)
    with pytest.raises(ValueError, match="at least two"):
        crossed_mean([[1.0]])
