"""Long replies: a workflow is not at fault for a verbose executor."""

from collections.abc import Coroutine
from typing import Any

import pytest

from assay_reward.workflows.execution.run import RunEnding, WorkflowRun
from assay_reward.workflows.language.source import check_source, form_of
from assay_reward.workflows.operators.support.faults import FaultKind
from tests.support.workflows import DIRECT, FakeExecutor, RunningSandbox, play

LONG = "x" * 32_990 + "\nAnswer: 42"
EIGHT = "".join(f"branch b{at}\ngive AnswerGenerate(input=problem)\nend\n" for at in range(8))
ENSEMBLE = (
    f"parallel\n{EIGHT}end\ne = ScEnsemble(problem=problem, solutions=[{{}}])\nreturn e.response"
)
LOOPED = 'a = Custom(input=problem, instruction="x")\ns = a.response\nrepeat 9\ns = "{s}{s}"\nend\n'


def run_of(source: str, reply: str) -> Coroutine[Any, Any, WorkflowRun]:
    tree = check_source(source, form_of(source)).or_refuse()
    return play(tree, FakeExecutor(lambda _: reply), RunningSandbox(lambda _: "1"))


async def test_a_reply_longer_than_a_value_is_cut_with_a_note() -> None:
    run = await play(DIRECT, FakeExecutor(lambda _: LONG))
    assert run.status is RunEnding.ANSWERED
    assert run.answer == "42"
    assert "a reply of 33001 characters, cut to 32768" in run.trace.children[0].children[0].note


@pytest.mark.parametrize(
    "source",
    [
        ENSEMBLE.format(", ".join(f"b{at}.thought" for at in range(8))),
        LOOPED + "return s",
        LOOPED + 'b = Custom(input=s, instruction="x")\nreturn b.response',
        LOOPED + 't = Tool(name="python", input=s)\nreturn t.output',
        LOOPED + "l = [s, s, s]\ne = MdEnsemble(problem=problem, solutions=l)\nreturn e.solution",
        LOOPED + "t = Programmer(problem=s, analysis=s)\nreturn t.output",
    ],
)
async def test_long_replies_together_are_no_fault(source: str) -> None:
    for reply in ("y" * 4_100 + "\nz", LONG):
        run = await run_of(source, reply)
        assert run.fault is None
        assert run.status is RunEnding.ANSWERED
        assert run.answer is not None
        assert len(run.answer) < 5 * 32_768, "values with replies have a cap"


async def test_the_workflows_own_characters_have_their_limit_next_to_replies() -> None:
    own = 's = "xxxxxxxx"\nrepeat 16\ns = "{s}{s}"\nend\n'
    call = 'a = Custom(input="{s}{problem}", instruction="x")\nreturn a.response'
    run = await run_of(own + call, "short")
    assert run.fault is not None
    assert run.fault.kind is FaultKind.TEXT
