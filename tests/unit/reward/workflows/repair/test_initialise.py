"""A first value of a repair is never an answer, and never decides a branch."""

import pytest

from assay_reward.workflows.execution.run import RunEnding, WorkflowRun
from assay_reward.workflows.playing.reading import read_here
from tests.support.workflows import FakeExecutor, play


async def run_of(source: str, says: str = "fine") -> WorkflowRun:
    read = read_here(source, repair=True)
    assert read.tree is not None, read.problems
    assert read.repairs
    return await play(read.tree, FakeExecutor(lambda _: says))


NEVER = 'if "zz" in problem\n'
READS = [
    f'{NEVER}  n = 5\nend\nreturn "{{n}}"',
    f"{NEVER}  r = Review(problem=problem, solution=problem)\nend\n"
    'if r.review_result\n  return "a"\nend\nreturn "b"',
    f"{NEVER}  x = problem\nend\ny = x\nreturn problem",
    f"{NEVER}  l += problem\nend\nv = ScEnsemble(problem=problem, solutions=l)\nreturn v.response",
    f"parallel\n  branch a\n    {NEVER}      t = problem\n    end\n    give t\n  end\n"
    "  b = problem\nend\nreturn a",
]


@pytest.mark.parametrize("source", READS)
async def test_a_run_that_reads_a_first_value_has_a_fault(source: str) -> None:
    run = await run_of(source)
    assert run.status is RunEnding.FAULT
    assert "has only the first value that a repair gave it" in str(run.fault)


ASK = 'a = Custom(input=problem, instruction="i")\n'
HARMLESS = [
    f'{ASK}if "6" in problem\n  x = a.response\nend\nreturn x',
    f"{ASK}repeat 2\n  l += a.response\nend\n"
    'if "seven" in l\n  return a.response\nend\nreturn "no {a.response}"',
    f'{ASK}{NEVER}  x = a.response\nend\nif "zz" in problem\n  return x\nend\nreturn a.response',
]


@pytest.mark.parametrize("source", HARMLESS)
async def test_a_first_value_that_is_set_again_or_not_read_is_harmless(source: str) -> None:
    assert (await run_of(source, says="seven")).answer == "seven"
