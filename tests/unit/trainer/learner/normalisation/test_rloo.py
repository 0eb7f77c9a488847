"""RLOO: each reward against the mean of the others."""

import random
from statistics import fmean

import pytest

from assay_trainer.learner.normalisation.group_rewards import GroupRewards
from assay_trainer.learner.normalisation.rloo import leave_one_out


def test_each_reward_is_compared_with_the_mean_of_the_others() -> None:
    rng = random.Random(0)
    for _ in range(50):
        rewards = [rng.random() for _ in range(rng.randint(2, 8))]
        expected = [r - fmean(rewards[:i] + rewards[i + 1 :]) for i, r in enumerate(rewards)]
        (got,) = leave_one_out([GroupRewards(rewards)])
        assert got == pytest.approx(expected)


def test_a_failure_is_not_one_of_the_others() -> None:
    (got,) = leave_one_out([GroupRewards([1.0, None, 0.0, 0.0])])
    assert got == [pytest.approx(1.0), None, pytest.approx(-0.5), pytest.approx(-0.5)]


@pytest.mark.parametrize("rewards", [[0.7], [0.7, None]])
def test_a_reward_without_others_has_no_advantage(rewards: list[float | None]) -> None:
    (got,) = leave_one_out([GroupRewards(rewards)])
    assert got[0] == 0.0
