import random
import statistics
from collections.abc import Sequence

import pytest

from assay_trainer.advantage import EPSILON, Scale, advantages, has_signal


def test_a_group_worked_out_by_hand() -> None:
    """mean 0.5; squared deviations 4 * 0.25 over 3; std 0.57735."""
    (got,) = advantages([[1.0, 0.0, 1.0, 0.0]], "group")
    expected = 0.5 / (0.577350269 + EPSILON)
    assert got == pytest.approx([expected, -expected, expected, -expected])


def test_batch_scale_divides_all_groups_by_one_deviation() -> None:
    rewards = [[1.0, 0.0], [0.5, 0.25]]
    std = statistics.stdev([1.0, 0.0, 0.5, 0.25]) + EPSILON
    assert advantages(rewards, "batch") == [
        pytest.approx([0.5 / std, -0.5 / std]),
        pytest.approx([0.125 / std, -0.125 / std]),
    ]


def test_no_scale_leaves_the_differences() -> None:
    assert advantages([[1.0, 0.0, 0.5]], "none") == [pytest.approx([0.5, -0.5, 0.0])]


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_failures_leave_the_statistics_as_if_they_had_never_been(scale: Scale) -> None:
    rng = random.Random(0)
    for _ in range(200):
        whole: list[list[float | None]] = [
            [rng.choice([None, 0.0, 0.25, 1.0]) for _ in range(rng.randint(1, 8))]
            for _ in range(rng.randint(1, 5))
        ]
        without = [[r for r in rewards if r is not None] for rewards in whole]
        got = [[a for a in row if a is not None] for row in advantages(whole, scale)]
        assert got == advantages(without, scale)
        for rewards, row in zip(whole, advantages(whole, scale), strict=True):
            assert [r is None for r in rewards] == [a is None for a in row]


def test_a_failure_read_as_zero_would_wrong_a_right_answer() -> None:
    """The peers' mistake, for comparison: one zero among seven ones."""
    (wronged,) = advantages([[1.0] * 7 + [0.0]], "group")
    assert wronged[7] == pytest.approx(-2.47, abs=0.01)
    (spared,) = advantages([[1.0] * 7 + [None]], "group")
    assert spared == [0.0] * 7 + [None]


@pytest.mark.parametrize(
    ("rewards", "signal"),
    [
        ([1.0, 1.0], False),
        ([1.0, 0.0], True),
        ([1.0, None], False),
        ([None, None], False),
        ([0.5, 0.5, None, 0.25], True),
        ([], False),
    ],
)
def test_signal(rewards: Sequence[float | None], signal: bool) -> None:
    assert has_signal(rewards) is signal
