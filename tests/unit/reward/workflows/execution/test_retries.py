"""Retries inside operators: bad code of the executor never spends a workflow's budgets."""

import pytest

from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.execution.retries import retries_within, run_bound
from assay_reward.workflows.execution.run import RunEnding
from assay_reward.workflows.language.source import check_source, form_of
from assay_reward.workflows.language.tree import Workflow
from assay_reward.workflows.operators.table import OPERATORS
from assay_shared.types import StdinCase
from tests.support.fakes import FakeSandbox
from tests.support.workflows import FakeExecutor, RunningSandbox, play

PUBLIC = tuple(StdinCase(stdin=f"in{at}", expected_stdout=f"out{at}") for at in range(2))
GENERATE = 'p = CustomCodeGenerate(problem=problem, instruction="x")\n'
TEST = "t = Test(problem=problem, solution=p.response)\n"
COMPUTE = "c = Programmer(problem=problem)\n"


def tree_of(source: str) -> Workflow:
    return check_source(source, form_of(source)).or_refuse()


AGAIN = f"{GENERATE}{TEST}if not t.result\n{GENERATE}end\nreturn p.response"
WORKFLOWS = {
    "generated again": (AGAIN, 2),
    "planned first": (
        f'a = Custom(input=problem, instruction="Plan.")\n{GENERATE}{TEST}return t.solution',
        2,
    ),
    "tested twice": (f"{GENERATE}{TEST}{TEST}return t.solution", 1),
    "computed twice": (COMPUTE * 2 + "return c.output", 1),
    "computed in parallel": (
        "parallel\n"
        + "".join(f"branch b{at}\ngive Programmer(problem=problem)\nend\n" for at in range(3))
        + "end\ne = ScEnsemble(problem=problem, solutions=[b0.output, b1.output, b2.output])\n"
        + "return e.response",
        1,
    ),
    "in a loop": (f"repeat 3\n{COMPUTE}end\nreturn c.output", 0),
}


@pytest.mark.parametrize("name", WORKFLOWS)
async def test_bad_code_of_the_executor_is_no_fault_of_the_workflow(name: str) -> None:
    source, retries = WORKFLOWS[name]
    tree, budgets = tree_of(source), RunBudgets()
    assert retries_within(tree, OPERATORS, budgets) == retries

    class Failing(FakeSandbox):
        execute = RunningSandbox(lambda _: None).execute

    run = await play(tree, FakeExecutor(lambda _: "pass 0"), Failing(), cases=PUBLIC)
    assert run.fault is None
    assert run.status is RunEnding.ANSWERED
    bound = run_bound(tree, OPERATORS, retries)
    assert bound.fits(budgets)
    assert (run.cost.calls, run.cost.programs, run.cost.depth) == (
        bound.calls - ("ScEnsemble" in source),  # all outputs are empty: nothing to choose from
        bound.programs,
        bound.depth - ("ScEnsemble" in source),
    )


async def test_a_stopped_operator_says_so_in_the_trace() -> None:
    run = await play(tree_of(AGAIN), FakeExecutor(lambda _: "pass 0"), cases=PUBLIC)
    assert "the budgets hold 2 retries of 3" in run.trace.children[1].note


async def test_the_tokens_of_retries_are_a_cost_and_no_fault() -> None:
    tree = tree_of(f"{COMPUTE}return c.output")
    run = await play(tree, sandbox=RunningSandbox(lambda _: None), tokens=20)
    assert run.fault is None
    assert run.cost.tokens == 45
