import math
import random
import statistics
from collections.abc import Sequence

import pytest

from assay_shared.errors import InvalidInput
from assay_shared.types import Normalisation, RewardComponent, Scored, Status
from assay_trainer.learner.advantage import NORMALISATIONS, advantages, group_rewards
from assay_trainer.learner.normalisation.group_rewards import EPSILON, Column, GroupRewards
from tests.support.fakes import make_scored_group

BATCH, COMPONENTS, GROUP, NONE = (
    Normalisation.BATCH,
    Normalisation.COMPONENTS,
    Normalisation.GROUP,
    Normalisation.NONE,
)


def of(rewards_PG: Sequence[Column], normalise: Normalisation) -> list[list[float | None]]:
    return advantages([GroupRewards(rewards, normalise) for rewards in rewards_PG])


def test_every_normalisation_has_its_function() -> None:
    assert set(NORMALISATIONS) == set(Normalisation)


def test_groups_of_one_batch_may_be_normalised_in_different_ways() -> None:
    rewards = [1.0, 0.0]
    kinds = [GROUP, NONE, Normalisation.RLOO]
    found = advantages([GroupRewards(rewards, kind) for kind in kinds])
    assert found == [advantages([GroupRewards(rewards, kind)])[0] for kind in kinds]


def test_a_group_worked_out_by_hand() -> None:
    """mean 0.5; squared deviations 4 * 0.25 over 3; std 0.57735."""
    (got,) = of([[1.0, 0.0, 1.0, 0.0]], GROUP)
    expected = 0.5 / (0.577350269 + EPSILON)
    assert got == pytest.approx([expected, -expected, expected, -expected])


def test_batch_scale_divides_all_groups_by_one_deviation() -> None:
    rewards = [[1.0, 0.0], [0.5, 0.25]]
    std = statistics.stdev([1.0, 0.0, 0.5, 0.25]) + EPSILON
    assert of(rewards, BATCH) == [
        pytest.approx([0.5 / std, -0.5 / std]),
        pytest.approx([0.125 / std, -0.125 / std]),
    ]


def test_no_scale_leaves_the_differences() -> None:
    assert of([[1.0, 0.0, 0.5]], NONE) == [pytest.approx([0.5, -0.5, 0.0])]


@pytest.mark.parametrize("scale", [one for one in Normalisation if one is not COMPONENTS])
@pytest.mark.promise("a failure is never a score")
def test_failures_leave_the_statistics_as_if_they_had_never_been(scale: Normalisation) -> None:
    rng = random.Random(0)
    for _ in range(200):
        whole: list[list[float | None]] = [
            [rng.choice([None, 0.0, 0.25, 1.0]) for _ in range(rng.randint(1, 8))]
            for _ in range(rng.randint(1, 5))
        ]
        without = [[r for r in rewards if r is not None] for rewards in whole]
        got = [[a for a in row if a is not None] for row in of(whole, scale)]
        assert got == of(without, scale)
        for rewards, row in zip(whole, of(whole, scale), strict=True):
            assert [r is None for r in rewards] == [a is None for a in row]


def test_a_failure_read_as_zero_would_wrong_a_right_answer() -> None:
    """The peers' mistake, for comparison: a zero among seven rewards of 1."""
    (wronged,) = of([[1.0] * 7 + [0.0]], GROUP)
    assert wronged[7] == pytest.approx(-2.47, abs=0.01)
    (spared,) = of([[1.0] * 7 + [None]], GROUP)
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
    assert GroupRewards(rewards).has_signal is signal


# By component


def two_components(normalise: Normalisation = COMPONENTS) -> GroupRewards:
    """Four samples: `a` in [0, 1] with a weight of 3, `b` in [0, 100] with a weight of 1."""
    return GroupRewards(
        [3.0, 100.0, 103.0, None],
        normalise,
        [3.0, 1.0],
        [[1.0, 0.0, 1.0, None], [0.0, 100.0, 100.0, None]],
    )


def test_components_are_normalised_before_they_are_weighted() -> None:
    """By the sum, b decides alone; by component, a counts three times as much as b."""
    std_a = statistics.stdev([1.0, 0.0, 1.0]) + EPSILON
    std_b = statistics.stdev([0.0, 100.0, 100.0]) + EPSILON
    sums = [
        3 * (1 / 3) / std_a + (-200 / 3) / std_b,
        3 * (-2 / 3) / std_a + (100 / 3) / std_b,
        3 * (1 / 3) / std_a + (100 / 3) / std_b,
    ]
    (got,) = advantages([two_components()])
    deviation = statistics.stdev(sums) + EPSILON
    assert got[:3] == pytest.approx([value / deviation for value in sums], abs=1e-9)
    assert got[3] is None
    (by_sum,) = advantages([two_components(GROUP)])
    assert by_sum[1] is not None
    assert by_sum[1] > 0 > (got[1] or 0.0)


def test_the_batch_is_normalised_over_the_groups_by_component_alone() -> None:
    groups = [two_components(), GroupRewards([1.0, 0.0], NONE), two_components()]
    first, plain, second = advantages(groups)
    assert first == second
    assert plain == [0.5, -0.5]
    present = [a for a in (*first, *second) if a is not None]
    assert statistics.fmean(present) == pytest.approx(0.0, abs=1e-12)
    assert statistics.stdev(present) == pytest.approx(1.0, rel=1e-3)


def test_equal_sums_of_unequal_components_teach_something_by_component_alone() -> None:
    columns = [[1.0, 0.0], [0.0, 1.0]]
    by_component = GroupRewards([1.0, 1.0], COMPONENTS, [1.0, 2.0], columns)
    assert by_component.has_signal
    assert not GroupRewards([1.0, 1.0], GROUP, [1.0, 2.0], columns).has_signal


def test_a_failed_sample_leaves_the_components_as_if_it_had_never_been() -> None:
    whole = two_components()
    without = GroupRewards(
        whole.rewards_G[:3], COMPONENTS, whole.weights_K, [c[:3] for c in whole.components_KG]
    )
    assert [a for a in advantages([whole])[0] if a is not None] == advantages([without])[0]


def test_the_rewards_of_a_stored_group_are_normalised_as_the_trainer_says() -> None:
    terms = (
        RewardComponent(name="format", value=1.0, weight=0.0),
        RewardComponent(name="right", value=0.5, weight=2.0),
    )
    scored = make_scored_group("g", 1.0, None)
    reward = Scored(value=1.0, outcome=Status.WRONG_ANSWER, components=terms)
    scored = scored.model_copy(update={"rewards": (reward, scored.rewards[1])})
    found = group_rewards(scored, COMPONENTS)
    assert (found.normalise, found.weights_K) == (COMPONENTS, [2.0])
    assert found.components_KG == [[0.5, None]]
    assert group_rewards(scored, NONE).normalise is NONE


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("normalise", list(Normalisation))
def test_a_reward_that_is_not_finite_is_refused(value: float, normalise: Normalisation) -> None:
    column = [value, 1.0, 0.0]
    group = GroupRewards(column, normalise, [1.0], [column])
    with pytest.raises(InvalidInput, match="not a finite number"):
        advantages([group])


def test_a_sample_with_a_reward_and_no_component_is_refused() -> None:
    group = GroupRewards([1.0, 0.0], COMPONENTS, [1.0], [[1.0, None]])
    with pytest.raises(InvalidInput, match="lacks a component"):
        advantages([group])
