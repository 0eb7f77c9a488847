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
    "constants among which the executor chooses": (
        'e = ScEnsemble(problem=problem, solutions=["42", "42", "43"])\nreturn e.response'
    ),
    "constants with votes": (
        'e = MdEnsemble(problem=problem, solutions=["42", "43"])\nreturn e.solution'
    ),
    "a constant next to an empty part of a reply": (
        'a = AnswerGenerate(input="1")\nreturn "42{a.thought}"'
    ),
    "a truth value": 'r = Review(problem="1", solution="1")\nreturn "{r.review_result}"',
    "a program of constants with a reply in it": (
        'a = Custom(input="1", instruction="1")\n'
        't = Tool(name="python", input="print(42) # {a.response}")\nreturn t.output'
    ),
    "a sum of constants with a reply in it": (
        'a = Custom(input="1", instruction="1")\n'
        't = Tool(name="calculate", input="42 or {a.response}")\nreturn t.output'
    ),
    "a tested program next to a reply": (
        'a = Custom(input="1", instruction="1")\n'
        't = Test(problem=a.response, solution="```python\\npass 9\\n```")\n'
        "return t.solution"
    ),
}
CALL = 'a = Custom(input=problem, instruction="x")\n'
#: What a workflow returns, and what of it is scored if each reply is "7 zz".
BESIDE = {
    "{a.response}\\n#### 42": "7 zz\n#### ",
    "42{a.response}": " 7 zz",
    "Answer: 42, {a.response}": "Answer:  7 zz",
    "the answer is {a.response}": "the answer is 7 zz",
    "#### {a.response}": "#### 7 zz",
    r"\\boxed{{{a.response}}}": "\\boxed{7 zz}",
    "```python\\n{a.response}\\n```": "```python\n7 zz\n```",
    "{a.response} and {a.response}": "7 zz  7 zz",
}
OPERATORS = {
    "a field": "return a.response",
    "a text with a field": 'return "It is {a.response}."',
    "through names and a list": (
        's = "{a.response}"\nl = [s]\ne = ScEnsemble(problem=problem, solutions=l)\n'
        "return e.response"
    ),
    "a program of the executor": ('t = Tool(name="python", input=a.response)\nreturn t.output'),
    "its tested program": "t = Test(problem=problem, solution=a.response)\nreturn t.solution",
}
LONG = "x" * 30_000
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


@pytest.mark.parametrize("returned", BESIDE)
async def test_what_the_policy_writes_beside_a_reply_is_not_scored(returned: str) -> None:
    source = CALL + f'return "{returned}"'
    tree = check_source(source, form_of(source)).or_refuse()
    run = await play(tree, FakeExecutor(lambda _: "7 zz"))
    assert run.answer == BESIDE[returned]
    is_whole = run.answer == run.trace.reply
    assert is_whole or "is not scored" in run.trace.note


async def test_a_list_and_a_long_text_keep_the_origin_of_their_characters() -> None:
    source = (
        CALL + 's = "41{a.response}"\nl = [s, "b"]\n'
        "e = MdEnsemble(problem=problem, solutions=l)\nreturn e.solution"
    )
    tree = check_source(source, form_of(source)).or_refuse()
    run = await play(tree, FakeExecutor(lambda _: "A"))
    assert (run.trace.reply, run.answer) in [("41A", " A"), ("b", None)]
    long = CALL + 's = "41{a.response}"\nrepeat 6\ns = "{s}{s}"\nend\nreturn s'
    run = await play(check_source(long, form_of(long)).or_refuse(), FakeExecutor(lambda _: LONG))
    assert run.answer is not None
    assert "41" not in run.answer
