"""An environment reveals only the requested facts."""

import random

import pytest

from assay_reward.or_debug.dataset.leakage import leaks
from assay_reward.or_debug.dataset.tasks import to_task
from assay_reward.or_debug.episode.episode import Episodes
from assay_shared.types import Role
from tests.support.or_debug.planted import BROKEN, INSTANCE

CALLS = (
    "GET_IIS()",
    "CHECK_SLACK(c1)",
    "CHECK_SLACK(c4)",
    "RELAX(c3, 1)",
    "RELAX(c4, 2)",
    "DROP(c2)",
    "DROP(c9)",
    "UPDATE_RHS(c3, 11)",
    "UPDATE_RHS(c4, 1)",
    "UPDATE_BOUNDS(x1, 0, 9)",
    "UPDATE_BOUNDS(x1, 9, 0)",
    "RESET()",
    "REPAIR()",
)


def test_the_linter_would_find_a_leak() -> None:
    for telling in ("The row demand_flipped is wrong", "ground truth: c3", "planted"):
        assert leaks(telling, INSTANCE)


@pytest.mark.rule("no name, place or text tells the label")
@pytest.mark.parametrize("seed", range(20))
def test_no_observation_names_a_label_whatever_is_done(seed: int) -> None:
    """Earlier data told the error type in the prompt, and named rows after their mistakes."""
    rng = random.Random(seed)
    turns = (*(f"Action: {rng.choice(CALLS)}" for _ in range(7)), "Action: SUBMIT(c1)")
    episodes = Episodes(5.0)
    told = [episodes.replay(BROKEN, turns[:length], 8).observation for length in range(1, 9)]
    assert [leaks(observation, INSTANCE) for observation in told] == [[]] * 8


@pytest.mark.parametrize("call", ["GET_IIS()", "DROP(c3)", "RELAX(c3, 1)", "UPDATE_RHS(c3, 11)"])
def test_terms_stand_in_the_order_of_the_prompt(call: str) -> None:
    """A coefficient put in last would otherwise stand last, and be recognised."""
    row = BROKEN.row("c3")
    turned = row.model_copy(update={"coefficients": dict(reversed(row.coefficients.items()))})
    model = BROKEN.with_row(turned)
    told = Episodes(5.0).replay(model, (f"Action: {call}",), 8).observation
    assert "c3: x1 + x2 >= 12" in model.text()
    assert "c3: x1 + x2 >= 1" in told


def test_no_observation_says_whether_a_submission_was_right() -> None:
    right, wrong = (
        Episodes(5.0).replay(BROKEN, (f"Action: SUBMIT({name})",), 8).observation
        for name in ("c3", "c2")
    )
    assert right.replace("c3", "c2") == wrong


@pytest.mark.rule("the policy sees the whole model, over as many turns as there really were")
def test_the_prompt_holds_the_whole_model_and_its_rules() -> None:
    """An earlier trainer sent "Unknown problem" and a path, and agents saw names only."""
    prompt = to_task(INSTANCE, Role.TRAIN).prompt
    assert BROKEN.text() in prompt
    assert "c3: x1 + x2 >= 12" in prompt
    assert "GET_IIS" in prompt
    assert "cannot all hold:" not in prompt
