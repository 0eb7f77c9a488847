"""Episodes: observations, ends, and replay as a pure function."""

import math
import random

import pytest

from assay_reward.or_debug.episode.actions import ACTIONS
from assay_reward.or_debug.episode.episode import Episodes, State, iis_text
from assay_reward.or_debug.models.iis import Irreducible
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel
from assay_reward.or_debug.models.slack import activity, least_violation
from assay_shared.errors import InvalidInput, TimedOut
from tests.support.or_debug.planted import BROKEN, OPTIMUM, REPAIR, hard_model, random_model


def play(*turns: str, model: OptimizationModel = BROKEN, max_turns: int = 8) -> State:
    return Episodes(5.0).replay(model, turns, max_turns)


def test_an_episode_that_finds_and_removes_the_cause() -> None:
    state = play(*REPAIR)
    assert state.done
    assert state.outcome.objective == pytest.approx(OPTIMUM)
    assert state.diagnosis == ("c3",)
    assert [step.optimal for step in state.steps] == [False, True, True]


def test_the_irreducible_set_is_told_with_what_its_members_say() -> None:
    told = play("Action: GET_IIS()").observation
    assert "These 2 cannot all hold:\nc1: x1 + x2 <= 10\nc3: x1 + x2 >= 12\nRows: c1, c3\n" in told
    assert told.endswith("Status: infeasible\nTurns left: 7")


def test_bounds_are_told_as_members_too() -> None:
    rows = (ModelRow(name="r", coefficients={"x1": 1.0}, lower=30.0),)
    told = play(
        "Action: GET_IIS()", model=OptimizationModel(columns=BROKEN.columns, rows=rows)
    ).observation
    assert "r: x1 >= 30\nbound x1 <= 20" in told


@pytest.mark.rule("no name, place or text tells the label")
@pytest.mark.parametrize("call", [example.example for example in ACTIONS.values()])
def test_the_irreducible_set_comes_only_when_asked_for(call: str) -> None:
    """Earlier prompts held it from the start, so a diagnosis was a copy."""
    told = play(f"Action: {call}").observation
    assert ("cannot all hold" in told) == (call == "GET_IIS()")


def test_after_an_edit_the_change_the_status_and_the_objective_are_told() -> None:
    assert play("Action: RELAX(c3, 2.5)").observation == (
        "Was c3: x1 + x2 >= 12\nNow c3: x1 + x2 >= 9.5\n"
        "Status: optimal, objective 27\nTurns left: 7"
    )


@pytest.mark.parametrize(
    "reply",
    [
        "no action at all",
        "Action: DROP(c1)\nAction: DROP(c2)",
        "Action: DROP(c77)",
        "Action: RELAX(c3, -1)",
        "Action: UPDATE_RHS(c4, 3)",
        "Action: SUBMIT(c3, the constraint)",
    ],
)
def test_an_invalid_turn_costs_a_turn_and_changes_nothing(reply: str) -> None:
    state = play("Action: RELAX(c3, 1)", reply)
    assert state.observation.startswith("Invalid: ")
    assert state.model.row("c3").lower == 11.0
    assert (state.turns_left, state.done, len(state.model.rows)) == (6, False, 5)
    assert state.steps[-1].action is None
    assert state.steps[-1].refusal


def test_the_episode_ends_when_turns_are_out() -> None:
    state = play("x1", "x2", "z", max_turns=3)
    assert state.done
    assert state.submitted is None
    assert state.observation.endswith("The episode has ended.")


def test_an_optimal_model_does_not_end_the_episode() -> None:
    assert not play("Action: DROP(c3)").done


@pytest.mark.parametrize("turns", [("Action: SUBMIT()", "Action: DROP(c3)"), ("a", "b", "c", "d")])
def test_nothing_can_follow_the_end(turns: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="turns: the episode ended with turn"):
        play(*turns, max_turns=3)


# Diagnosis


@pytest.mark.rule("a diagnosis is what was submitted, and no word of the reasoning")
def test_a_diagnosis_is_what_was_submitted_and_no_word_of_the_text() -> None:
    """An earlier system took "can", "constraint" and "conflict" for names of rows."""
    state = play(
        "The constraint c1 can conflict with c2.\nAction: DROP(c1)",
        "I conclude that c2 and c5 cannot be the cause.\nAction: SUBMIT(c3)",
    )
    assert state.diagnosis == ("c3",)


def test_without_names_the_diagnosis_is_what_the_edits_in_force_changed() -> None:
    assert play(
        "Action: DROP(c1)", "Action: UPDATE_BOUNDS(x1, 0, 9)", "Action: SUBMIT()"
    ).diagnosis == (
        "c1",
        "x1",
    )
    assert play("Action: DROP(c1)", "Action: RESET()", "Action: SUBMIT()").diagnosis == ()
    assert play("Action: GET_IIS()", max_turns=1).diagnosis == ()


def test_a_row_that_was_dropped_may_be_blamed() -> None:
    assert play("Action: DROP(c3)", "Action: SUBMIT(c3)").submitted == ("c3",)


# Slack


def test_slack_is_told_at_the_optimum() -> None:
    told = play("Action: DROP(c3)", "Action: CHECK_SLACK(c2)").observation
    assert "c2 has activity 4 and slack 0 to its upper side, at the optimal point." in told
    told = play("Action: DROP(c3)", "Action: CHECK_SLACK(c4)").observation
    assert "lower side and" in told


def test_in_an_infeasible_model_slack_is_told_at_the_point_of_least_violation() -> None:
    told = play("Action: CHECK_SLACK(c1)").observation
    assert "at the point of least violation" in told
    values = least_violation(BROKEN, 5.0)
    assert values is not None
    violations = [
        max(0.0, row.lower - activity(row, values), activity(row, values) - row.upper)
        for row in BROKEN.rows
    ]
    assert sum(violations) == pytest.approx(2.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_least_violation_is_none_exactly_where_the_model_is_feasible(seed: int) -> None:
    model = random_model(random.Random(seed))
    values = least_violation(model, 5.0)
    assert values is not None
    worst = max(
        max(row.lower - activity(row, values), activity(row, values) - row.upper)
        for row in model.rows
    )
    assert (worst <= 1e-6) == play(model=model).outcome.is_optimal


def test_bounds_that_no_integer_satisfies_leave_no_point() -> None:
    model = OptimizationModel(
        columns=(Column(name="x3", lower=0.2, upper=0.8, is_integer=True),),
        rows=(ModelRow(name="r", coefficients={"x3": 1.0}, upper=5.0),),
    )
    told = play("Action: CHECK_SLACK(r)", model=model).observation
    assert "No point lies within all bounds" in told


def test_an_unbounded_model_has_slack_at_a_feasible_point() -> None:
    model = OptimizationModel(
        columns=(Column(name="x1", cost=1.0),),
        rows=(ModelRow(name="r", coefficients={"x1": 1.0}, lower=5.0),),
    )
    told = play("Action: CHECK_SLACK(r)", model=model).observation
    assert "at a feasible point" in told
    assert "Status: unbounded" in told


# Replay


@pytest.mark.parametrize("seed", range(10))
def test_a_replay_gives_the_same_with_and_without_memory(seed: int) -> None:
    rng = random.Random(seed)
    turns = tuple(
        f"Action: {rng.choice(['GET_IIS()', 'DROP(c1)', 'RELAX(c3, 1)', 'CHECK_SLACK(c2)', 'no'])}"
        for _ in range(6)
    )
    remembering = Episodes(5.0)
    stepwise = [remembering.replay(BROKEN, turns[:length], 8) for length in range(7)]
    assert stepwise == [play(*turns[:length]) for length in range(7)]


def test_the_memory_is_bounded_and_a_state_is_solved_once() -> None:
    episodes = Episodes(5.0, max_states=3)
    turns = ("Action: DROP(c1)", "Action: DROP(c2)", "Action: DROP(c4)", "Action: DROP(c5)")
    first = episodes.replay(BROKEN, turns, 8)
    assert episodes.replay(BROKEN, turns, 8) is first
    assert len(episodes._states) == 3


def test_two_models_never_share_a_memory() -> None:
    episodes = Episodes(5.0)
    other = BROKEN.without_row("c3")
    assert not episodes.replay(BROKEN, (), 8).outcome.is_optimal
    assert episodes.replay(other, (), 8).outcome.is_optimal


def test_a_solve_out_of_time_is_a_fault_and_no_turn() -> None:
    """An earlier system gave a time limit a reward of 10, and a missing file about 20."""
    with pytest.raises(TimedOut):
        Episodes(0.05).replay(hard_model(), (), 8)


def test_a_large_set_is_cut_and_says_so() -> None:
    rows = tuple(ModelRow(name=f"c{at}", coefficients={"x1": 1.0}, lower=30.0) for at in range(40))
    model = OptimizationModel(columns=(Column(name="x1", upper=math.inf),), rows=rows)
    told = iis_text(model, Irreducible(rows=tuple(row.name for row in rows)))
    assert "These 40 cannot all hold" in told
    assert "\nand 16 more\nRows: c0, c1, " in told
