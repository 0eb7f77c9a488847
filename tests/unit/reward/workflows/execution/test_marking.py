"""Answers: the executor has a part in each, and the policy solves no problem itself."""

import pytest

from assay_reward.workflows.language.source import check_source, form_of
from assay_reward.workflows.operators.support.faults import FaultKind
from assay_shared.types import StdinCase
from tests.support.workflows import FakeExecutor, RunningSandbox, play

OWN = {
    "a constant": 'return "42"',
    "a constant after a call": 'a = Custom(input=problem, instruction="x")\nreturn "42"',
    "the problem": "return problem",
    "a constant in a record": 'a = {response: "42"}\nreturn a.response',
    "a constant with the number of a pass": 'n = 0\nrepeat 3 as i\nn = i\nend\nreturn "4{n}"',
    "a program of constants": 't = Tool(name="python", input="print(42)")\nreturn t.output',
    "the success of such a program": (
        't = Tool(name="python", input="print(42)")\nreturn "{t.succeeded}"'
    ),
    "one constant in an ensemble": (
        'e = ScEnsemble(problem=problem, solutions=["42"])\nreturn e.response'
    ),
    "equal constants in votes": (
        'e = MdEnsemble(problem=problem, solutions=["42", "42"])\nreturn e.solution'
    ),
    "a tested program": 't = Test(problem=problem, solution="pass 9")\nreturn t.solution',
}
CALL = 'a = Custom(input=problem, instruction="x")\n'
OPERATORS = {
    "a field": "return a.response",
    "a text with a field": 'return "It is {a.response}."',
    "through names and a list": (
        's = "{a.response}"\nl = [s]\ne = ScEnsemble(problem=problem, solutions=l)\n'
        "return e.response"
    ),
    "a finding": ('r = Review(problem=problem, solution="x")\nreturn "{r.review_result}"'),
    "a program of the executor": ('t = Tool(name="python", input=a.response)\nreturn t.output'),
    "its tested program": "t = Test(problem=problem, solution=a.response)\nreturn t.solution",
}
PUBLIC = (StdinCase(stdin="in", expected_stdout="out"),)


class _Sandbox(RunningSandbox):
    def __init__(self) -> None:
        super().__init__(lambda _: "42")


@pytest.mark.parametrize("name", OWN)
async def test_an_answer_of_the_policy_itself_is_its_fault(name: str) -> None:
    tree = check_source(OWN[name], form_of(OWN[name])).or_refuse()
    run = await play(tree, FakeExecutor(), _Sandbox(), cases=PUBLIC)
    assert run.answer is None
    assert run.fault is not None
    assert run.fault.kind is FaultKind.ANSWER
    assert "return the result of an operator" in run.fault.message


@pytest.mark.parametrize("name", OPERATORS)
async def test_an_answer_out_of_an_operator_counts(name: str) -> None:
    source = CALL + OPERATORS[name]
    tree = check_source(source, form_of(source)).or_refuse()
    run = await play(tree, FakeExecutor(lambda _: "pass 9"), _Sandbox(), cases=PUBLIC)
    assert run.fault is None
    assert type(run.answer) is str
