"""REINFORCE++: statistics of the whole batch, worked out by hand."""

from math import sqrt

import pytest

from assay_trainer.learner.normalisation.group_rewards import EPSILON, GroupRewards
from assay_trainer.learner.normalisation.reinforce_pp import over_batch, over_batch_with_baseline

#: Mean 0.5 over the batch; the first group's mean is 0.75, the second group's is 0.25.
GROUPS = [GroupRewards([1.0, 0.5]), GroupRewards([0.5, 0.0])]


def test_rewards_are_compared_with_the_batch() -> None:
    """Squared distances to 0.5: 0.25, 0, 0, 0.25; over n - 1 = 3."""
    std = sqrt(0.5 / 3) + EPSILON
    assert over_batch(GROUPS) == [
        pytest.approx([0.5 / std, 0.0]),
        pytest.approx([0.0, -0.5 / std]),
    ]


def test_with_a_baseline_the_groups_means_go_first() -> None:
    """All four distances to their group's mean are 0.25."""
    std = sqrt(4 * 0.25**2 / 3) + EPSILON
    expected = pytest.approx([0.25 / std, -0.25 / std])
    assert over_batch_with_baseline(GROUPS) == [expected, expected]


def test_a_group_of_equal_rewards_teaches_by_the_batch_and_not_with_a_baseline() -> None:
    groups = [GroupRewards([1.0, 1.0]), GroupRewards([0.0, None, 0.0])]
    first, second = over_batch(groups)
    assert first[0] == pytest.approx(0.5 / (sqrt(1 / 3) + EPSILON))
    assert second == [pytest.approx(-(first[0] or 0)), None, pytest.approx(-(first[0] or 0))]
    assert over_batch_with_baseline(groups) == [[0.0, 0.0], [0.0, None, 0.0]]


def test_equal_rewards_have_no_advantage() -> None:
    for rows in (over_batch, over_batch_with_baseline):
        for row in rows([GroupRewards([0.1] * 3), GroupRewards([0.1] * 7)]):
            assert row == pytest.approx([0.0] * len(row), abs=1e-9)
