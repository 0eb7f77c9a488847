"""Intervals of shares over tasks and of ratios: their coverage, by simulation."""

from collections.abc import Callable

import numpy as np
import pytest

from assay_shared.statistics import task_shares
from assay_shared.statistics.interval import Interval, wilson_interval
from assay_shared.statistics.task_shares import ratio_interval, share_interval
from assay_trainer.evaluation.pass_at_k import pass_at_k

_TRIALS = 600
#: Of 600 trials at 95%, 4.5 deviations below is still chance.
_LEAST = 0.91


def coverage(truth: float, sample: Callable[[], Interval | None], trials: int = _TRIALS) -> float:
    found = [sample() for _ in range(trials)]
    return sum(one is not None and one.low <= truth <= one.high for one in found) / trials


def test_single_answers_have_wilsons_interval() -> None:
    assert share_interval([1.0] * 30 + [0.0] * 70, 0.95) == wilson_interval(30, 100, 0.95)


def test_equal_values_still_have_a_width() -> None:
    for value in (0.0, 1.0):
        found = share_interval([value] * 20, 0.95, most_each=8)
        assert found == wilson_interval(int(20 * value), 20, 0.95)
    halves = share_interval([0.5] * 20, 0.95, most_each=4)
    assert 0.38 < halves.low < 0.5 < halves.high < 0.62


@pytest.mark.slow
@pytest.mark.parametrize("num_tasks", [20, 164])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_intervals_of_single_answers_hold_as_often_as_they_say(
    share: float, num_tasks: int
) -> None:
    rng = np.random.default_rng(1)

    def sample() -> Interval:
        return share_interval([*(rng.random(num_tasks) < share).astype(float)], 0.95)

    assert coverage(share, sample) >= _LEAST


@pytest.mark.slow
@pytest.mark.parametrize("num_tasks", [20, 164])
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("shape", [(0.2, 0.2), (0.5, 2.0), (2.0, 2.0)])
def test_intervals_of_pass_at_k_hold_as_often_as_they_say(
    shape: tuple[float, float], k: int, num_tasks: int
) -> None:
    rng = np.random.default_rng(2)
    truth = float(np.mean(1.0 - (1.0 - rng.beta(*shape, 1_000_000)) ** k))

    def sample() -> Interval:
        correct = rng.binomial(8, rng.beta(*shape, num_tasks))
        return share_interval([pass_at_k(8, int(one), k) for one in correct], 0.95, 8)

    assert coverage(truth, sample) >= _LEAST


@pytest.mark.slow
@pytest.mark.parametrize("num_tasks", [50, 164])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.7])
def test_intervals_of_costs_for_each_solved_task_hold_as_often_as_they_say(
    share: float, num_tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_shares, "NUM_RESAMPLES", 1000)
    rng = np.random.default_rng(3)
    truth = np.exp(4.5) * (1 - 0.3 * share) / share

    def sample() -> Interval | None:
        solved = (rng.random(num_tasks) < share).astype(float)
        costs = rng.lognormal(4.0, 1.0, num_tasks) * (1 - 0.3 * solved)
        return ratio_interval([*costs], [*solved], 0.95, int(rng.integers(2**31)))

    assert coverage(float(truth), sample, 400) >= 0.89


def test_a_ratio_to_nothing_is_none_and_to_one_task_may_be_unbounded() -> None:
    assert ratio_interval([3.0, 4.0], [0.0, 0.0], 0.95, seed=0) is None
    found = ratio_interval([10.0] * 8, [1.0] + [0.0] * 7, 0.95, seed=0)
    assert found is not None
    assert found.value == 80.0
    assert found.high == float("inf")
    with pytest.raises(ValueError, match="2 and 1 values cannot be divided"):
        ratio_interval([1.0, 2.0], [1.0], 0.95, seed=0)
