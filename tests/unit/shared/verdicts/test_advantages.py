"""Advantages of the comparison are the trainer's."""

import random

import pytest

from assay_shared.verdicts.advantages import advantages_of
from assay_trainer.learner.advantage import advantages
from assay_trainer.learner.normalisation.group_rewards import GroupRewards


def test_a_failure_read_as_zero_among_seven_right_answers() -> None:
    assert advantages_of([1.0] * 7 + [0.0])[-1] == pytest.approx(-2.474, abs=1e-3)
    assert advantages_of([1.0] * 7 + [None]) == [0.0] * 7 + [None]


@pytest.mark.parametrize("seed", range(20))
def test_they_equal_the_trainers(seed: int) -> None:
    rng = random.Random(seed)
    rewards = [rng.choice([None, 0.0, 0.5, 1.0, rng.uniform(-3, 3)]) for _ in range(8)]
    (expected,) = advantages([GroupRewards(rewards)])
    assert advantages_of(rewards) == pytest.approx(expected)


def test_none_and_one() -> None:
    assert advantages_of([]) == []
    assert advantages_of([None, None]) == [None, None]
    assert advantages_of([None, 0.3]) == [None, 0.0]
