"""The test over seeds and tasks: its rate of false alarms by A/A arms, and its power."""

import numpy as np
import pytest
from scipy import stats

from assay_trainer.ablation.judging.crossed import Floats, crossed_mean

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


def test_the_interval_and_p_agree_and_equal_values_have_neither_error_nor_effect() -> None:
    table = np.random.default_rng(1).normal(0.2, 1, size=(5, 30))
    found = crossed_mean(table)
    interval = found.interval(1 - found.p)
    assert min(abs(interval.low), abs(interval.high)) == pytest.approx(0.0, abs=1e-9)
    same = crossed_mean(np.zeros((4, 10)))
    assert (same.p, same.error) == (1.0, 0.0)
    assert crossed_mean(np.full((4, 10), 0.5)).p == 0.0


def test_with_one_seed_the_error_is_that_of_the_tasks_alone() -> None:
    line = np.arange(10.0)
    found = crossed_mean(line[None, :])
    assert found.error == pytest.approx(line.std(ddof=1) / 10**0.5)
    assert (found.num_seeds, found.freedom) == (1, 9)
    with pytest.raises(ValueError, match="at least two"):
        crossed_mean([[1.0]])
