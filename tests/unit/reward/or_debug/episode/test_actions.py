"""Each reply has an action: read, or refused with the right form."""

import math

import pytest

from assay_reward.or_debug.episode.actions import (
    ACTIONS,
    Action,
    ActionName,
    InvalidTurn,
    instructions,
    parse_action,
)


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("Action: GET_IIS()", Action(ActionName.GET_IIS)),
        ("  Action:   GET_IIS( )  \n\n", Action(ActionName.GET_IIS)),
        ("Action: CHECK_SLACK(c3)", Action(ActionName.CHECK_SLACK, "c3")),
        ("Action: RELAX(c3, 2.5)", Action(ActionName.RELAX, "c3", (2.5,))),
        ("Action: RELAX(c3,1e-3)", Action(ActionName.RELAX, "c3", (0.001,))),
        ("Action: DROP(row 1)", Action(ActionName.DROP, "row 1")),
        ("Action: UPDATE_RHS(c3, -4)", Action(ActionName.UPDATE_RHS, "c3", (-4.0,))),
        (
            "Action: UPDATE_BOUNDS(x2, -inf, 7.)",
            Action(ActionName.UPDATE_BOUNDS, "x2", (-math.inf, 7.0)),
        ),
        ("Action: RESET()", Action(ActionName.RESET)),
        ("Action: SUBMIT(c3, x2)", Action(ActionName.SUBMIT, names=("c3", "x2"))),
        ("Action: SUBMIT()", Action(ActionName.SUBMIT)),
    ],
)
def test_every_action_is_read(reply: str, action: Action) -> None:
    assert parse_action(reply) == action


def test_reasoning_before_the_action_is_free() -> None:
    reply = "<think>I could DROP(c1), an Action: of last resort.</think>\nSo:\nAction: GET_IIS()"
    assert parse_action(reply) == Action(ActionName.GET_IIS)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("", "no line of your reply start"),
        ("I would drop c3.", "no line"),
        ("DROP(c3)", "no line"),
        ("action: DROP(c3)", "no line"),
        ("Action: DROP(c1)\nAction: DROP(c2)", "2 lines"),
        ("Action: DROP(c1)\nThat should do.", "last line"),
        ("Action: DROP c1", "NAME"),
        ("Action: drop(c1)", "NAME"),
        ("Action: DELETE(c1)", "no action is called `DELETE`; there are GET_IIS"),
        ("Action: DROP(c1) DROP(c2)", "NAME"),
        ("Action: DROP()", "takes 1 argument, not 0; write it like DROP"),
        ("Action: DROP(c1, c2)", "takes 1 argument, not 2"),
        ("Action: GET_IIS(c1)", "takes no argument, not 1"),
        ("Action: RELAX(c1)", "takes 2 arguments, not 1"),
        ("Action: RELAX(c1, )", "empty"),
        ("Action: RELAX(c1, lots)", "amount must be a number such as 2.5, not `lots`"),
        ("Action: RELAX(c1, 0)", "above 0"),
        ("Action: RELAX(c1, -2)", "RELAX only widens"),
        ("Action: RELAX(c1, inf)", "must be a number"),
        ("Action: RELAX(c1, nan)", "must be a number"),
        ("Action: RELAX(c1, 1_000)", "must be a number"),
        ("Action: UPDATE_RHS(c1, 1e999)", "too large"),
        ("Action: UPDATE_RHS(c1, 0x10)", "must be a number"),
        ("Action: UPDATE_BOUNDS(x, 3, 2)", "lower must be at most upper, not 3 and 2"),
        ("Action: UPDATE_BOUNDS(x, inf, inf)", "lower must be at most upper"),
        ("Action: SUBMIT(c1, c1)", "`c1` is listed twice"),
        ("Action: SUBMIT(,)", "empty"),
    ],
)
def test_anything_else_is_refused_and_says_what_would_be_right(reply: str, message: str) -> None:
    with pytest.raises(InvalidTurn, match=message):
        parse_action(reply)


def test_a_refusal_stays_short_however_long_the_reply() -> None:
    with pytest.raises(InvalidTurn) as refusal:
        parse_action("Action: " + "A" * 100_000)
    assert len(str(refusal.value)) < 200


def test_the_instructions_are_made_from_the_table_of_actions() -> None:
    """Prompt and parser cannot drift apart: earlier systems had two incompatible formats."""
    text = instructions(max_turns=6)
    for name, kind in ACTIONS.items():
        assert f"- {name}({', '.join(kind.parameters)})" in text
        assert kind.example in text
        assert parse_action(f"Action: {kind.example}").name is name
    assert "6 replies" in text


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_reads_as_it_is_written(name: ActionName) -> None:
    action = parse_action(f"Action: {ACTIONS[name].example}")
    assert parse_action(f"Action: {action}") == action
