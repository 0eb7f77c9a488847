"""The composite as its document states it, the faithful reward, and their real weights."""

from collections.abc import Iterator

import pytest

from assay_reward.group import GroupScore
from assay_reward.instruments import Instruments
from assay_reward.or_debug.episode.episode import Episodes
from assay_reward.or_debug.episode.replay_pool import ReplayPool
from assay_reward.or_debug.episode.rewards import (
    diagnosis_reward,
    efficiency_reward,
    outcome_reward,
    process_parts,
)
from assay_reward.pace import Pace
from assay_reward.rubric import Rubrics
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import InvalidInput
from assay_shared.types import (
    AnswerText,
    FailureClass,
    Reward,
    Scored,
    ScoreRequest,
    Task,
    Unscored,
)
from tests.support.fakes import FakeJudge, FakeSandbox, make_task
from tests.support.or_debug.planted import (
    BROKEN,
    HARD,
    INSTANCE,
    REPAIR,
    make_or_task,
)

TASK = make_or_task()
CHEAT = ("Action: DROP(c1)", "Action: SUBMIT(c1, c2, c3, c4, c5)")


@pytest.fixture(scope="module")
def players() -> Iterator[ReplayPool]:
    players = ReplayPool()
    yield players
    players.close()


async def score(
    players: ReplayPool, rubric: str, *answers: AnswerText, task: Task = TASK
) -> list[Reward]:
    instruments = Instruments(FakeSandbox(), FakeJudge(), Symbolic(1.0), players)
    request = ScoreRequest(task=task, answers=answers, rubric=rubric)
    response = await GroupScore(Rubrics(None).find(rubric), request, instruments, Pace()).run()
    return list(response.rewards)


def value(reward: Reward) -> float:
    assert isinstance(reward, Scored)
    return reward.value


# The document's formulas


def test_the_outcome_is_100_or_minus_50() -> None:
    assert (outcome_reward(True), outcome_reward(False)) == (100.0, -50.0)


def test_the_diagnosis_is_20_times_the_recall() -> None:
    assert [diagnosis_reward(recall) for recall in (0.0, 0.5, 1.0)] == [0.0, 10.0, 20.0]


@pytest.mark.parametrize(
    ("steps", "reward"), [(1, 10), (2, 10), (3, 5), (5, 5), (6, -2), (8, -6), (10, -10)]
)
def test_efficiency_falls_with_the_number_of_steps(steps: int, reward: float) -> None:
    """An earlier trainer had single turns only, and its efficiency never changed."""
    assert efficiency_reward(steps) == reward


async def test_the_seed_rubric_weighs_outcome_diagnosis_and_steps(players: ReplayPool) -> None:
    repair, half, nothing = await score(
        players, "or_debug.seed", REPAIR, ("Action: DROP(c1)",), ("hm",) * 8
    )
    assert value(repair) == pytest.approx(0.5 * 100 + 0.3 * 20 * 0.5 + 0.2 * 5)
    assert value(half) == pytest.approx(0.5 * 100 + 0.3 * 20 * 0.5 + 0.2 * 10)
    assert value(nothing) == pytest.approx(0.5 * -50 + 0.3 * 0 + 0.2 * -6)


def test_the_weights_of_the_seed_rubric_are_not_its_shares() -> None:
    """Weights 0.5, 0.3, 0.2 on scales of 150, 20 and 20."""
    shares = Rubrics(None).find("or_debug.seed").info().shares
    assert [round(share, 2) for share in shares.values()] == [0.88, 0.07, 0.05]


# The faithful one


def test_the_weights_of_the_faithful_rubric_are_its_shares() -> None:
    shares = Rubrics(None).find("or_debug.faithful").info().shares
    assert list(shares.values()) == pytest.approx([0.5, 0.2, 0.2, 0.1])


async def test_a_faithful_recovery_is_worth_more_than_any_other(players: ReplayPool) -> None:
    faithful, cheat, gives_up, empty = await score(
        players, "or_debug.faithful", REPAIR, CHEAT, ("Action: SUBMIT(c3)",), ("",)
    )
    assert value(faithful) == pytest.approx(0.9 + 0.1 * 7 / 9)
    assert value(cheat) < 0.5
    assert value(gives_up) == pytest.approx(0.2)
    assert value(empty) == 0.0


@pytest.mark.rule("rewards carry no noise, and a group without differences teaches nothing")
async def test_rewards_are_the_same_every_time(players: ReplayPool) -> None:
    """An earlier system added noise to rewards, to make groups differ."""
    first = await score(players, "or_debug.faithful", REPAIR, REPAIR, CHEAT)
    assert value(first[0]) == value(first[1])
    assert first == await score(players, "or_debug.faithful", REPAIR, REPAIR, CHEAT)


@pytest.mark.rule("every action of a policy is carried out and measured, none is guessed")
@pytest.mark.parametrize("rubric", ["or_debug.seed", "or_debug.faithful"])
async def test_every_relax_is_measured_by_the_solver(players: ReplayPool, rubric: str) -> None:
    """An earlier system fell back to a random guess whenever a policy relaxed a row."""
    too_little, enough = await score(
        players, rubric, ("Action: RELAX(c3, 1)",), ("Action: RELAX(c3, 2)",)
    )
    assert value(too_little) < value(enough)


# Failures


@pytest.mark.slow
async def test_a_replay_out_of_time_ends_and_the_next_one_is_played() -> None:
    """If the solver itself keeps no limit, its process is ended."""
    players = ReplayPool(solve_timeout_s=60.0, episode_timeout_s=0.5)
    try:
        first, second = [
            await score(players, "or_debug.seed", REPAIR, task=task)
            for task in (make_or_task(HARD), TASK)
        ]
    finally:
        players.close()
    assert isinstance(first[0], Unscored)
    assert "no replay within 0.5 s" in first[0].failure.message
    assert isinstance(second[0], Scored)


@pytest.mark.rule("a solver out of time is a failure and never a score")
@pytest.mark.parametrize("rubric", ["or_debug.seed", "or_debug.faithful"])
async def test_a_solver_out_of_time_is_a_failure_and_not_a_score(rubric: str) -> None:
    """An earlier system gave a time limit a reward of 10, and a missing file about 20."""
    players = ReplayPool(solve_timeout_s=0.05)
    try:
        (reward,) = await score(players, rubric, REPAIR, task=make_or_task(HARD))
    finally:
        players.close()
    assert isinstance(reward, Unscored)
    assert reward.failure.failure_class is FailureClass.NETWORK
    assert reward.failure.retryable


async def test_turns_after_the_end_have_no_score(players: ReplayPool) -> None:
    after_the_end, too_many, fine = await score(
        players, "or_debug.seed", (*REPAIR, "Action: RESET()"), ("x",) * 9, REPAIR
    )
    assert isinstance(after_the_end, Unscored)
    assert isinstance(too_many, Unscored)
    assert isinstance(fine, Scored)


async def test_a_task_played_elsewhere_is_the_callers_fault(players: ReplayPool) -> None:
    instruments = Instruments(FakeSandbox(), FakeJudge(), Symbolic(1.0), players)
    request = ScoreRequest(task=make_task(), answers=("x",), rubric="or_debug.seed")
    rubric = Rubrics(None).find("or_debug.seed")
    with pytest.raises(InvalidInput, match="task.environment: task t is not played anywhere"):
        await GroupScore(rubric, request, instruments, Pace()).run()


# Parts of single turns


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (("Action: GET_IIS()",), {"valid": 1}),
        (("hm",), {}),
        (("Action: DROP(c3)",), {"valid": 1, "recovered": 1, "root_cause": 1, "iis": 1}),
        (("Action: DROP(c1)",), {"valid": 1, "recovered": 1, "iis": 1}),
        (("Action: DROP(c2)",), {"valid": 1, "others": 1}),
        (
            ("Action: DROP(c3)", "Action: RESET()"),
            {"valid": 1, "recovered": -1, "root_cause": -1, "iis": -1},
        ),
        (("Action: DROP(c3)", "Action: SUBMIT(c3)"), {"valid": 1}),
    ],
)
def test_a_turn_is_rewarded_for_what_it_did(
    turns: tuple[str, ...], expected: dict[str, float]
) -> None:
    episodes = Episodes(5.0)
    before, after = (episodes.replay(BROKEN, part, 8) for part in (turns[:-1], turns))
    none = dict.fromkeys(("valid", "recovered", "root_cause", "iis", "others"), 0.0)
    assert process_parts(INSTANCE, before, after) == none | expected
