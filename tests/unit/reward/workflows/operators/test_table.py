"""Each operator on an executor under the test's orders."""

import re
from collections import Counter

import pytest

from assay_reward.workflows.execution.run import RunEnding, WorkflowRun
from assay_reward.workflows.language.signatures import OPERATORS as SIGNATURES
from assay_reward.workflows.language.tree import ListValue, OperatorCall
from assay_reward.workflows.operators.support import votes
from assay_reward.workflows.operators.support.prompt_files import OperatorPrompt, prompt_file
from assay_reward.workflows.operators.table import OPERATORS
from assay_shared.errors import SandboxFault
from assay_shared.types import ExecutionRequest, ExecutionResult, StdinCase
from tests.support.fakes import FakeSandbox
from tests.support.workflows import FakeExecutor, RunningSandbox, answer_with, call, play, text

THREE = ListValue((text("first"), text("second"), text("third")))
PUBLIC = tuple(StdinCase(stdin=f"in{at}", expected_stdout=f"out{at}") for at in range(2))


async def result(operator: OperatorCall, field: str, says: object = "fine") -> str:
    """Return what the workflow returns; its own text is not an answer."""
    executor = FakeExecutor(says if callable(says) else lambda _: str(says))
    run = await play(answer_with(operator, field), executor)
    assert run.failure is None, run
    return run.trace.reply


def test_the_language_and_the_table_have_the_same_operators() -> None:
    assert set(OPERATORS) == set(SIGNATURES)
    assert all(one.signature.name == name for name, one in OPERATORS.items())


async def test_results_have_the_fields_of_their_signatures() -> None:
    sandbox = RunningSandbox(lambda _: "7")
    for name, operator in OPERATORS.items():
        given = {
            parameter: THREE if parameter == "solutions" else text("python")
            for parameter in operator.signature.parameters
        }
        run = await play(answer_with(call(name, **given), "?"), sandbox=sandbox)
        assert run.fault is not None, "only the field is missing"
        (part,) = run.trace.children
        fields = re.findall(r"^(\w+): ", part.reply, re.MULTILINE)
        assert fields == list(operator.signature.fields), name


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("thinking\nAnswer: 42", "42"),
        ("**Answer:** 42 km", "42 km"),
        ("Answer: 1\nno, wait\nanswer: 2", "2"),
        ("Answer:\nx = 1\ny = 2", "x = 1\ny = 2"),
        ("no mark\n42", "42"),
        ("only", "only"),
    ],
)
async def test_the_answer_stands_after_its_mark(reply: str, answer: str) -> None:
    found = await result(call("AnswerGenerate", input="problem"), "answer", reply)
    assert found == answer


@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        ("B", "second"),
        (" (c). ", "third"),
        ("**B**", "second"),
        ("The answer is C", "third"),
        ("Solution B has the shared answer", "second"),
        ("Z", "first"),
        ("", None),
        ("A good choice would be none of them", "first"),
        ("first", "first"),
        ("D", "first"),
    ],
)
async def test_an_unexpected_letter_is_no_error(reply: str, chosen: str | None) -> None:
    operator = call("ScEnsemble", problem="problem", solutions=THREE)
    if chosen is None:
        run = await play(answer_with(operator, "response"), FakeExecutor(lambda _: reply))
        assert run.status is RunEnding.FAILED
        return
    assert await result(operator, "response", reply) == chosen


@pytest.mark.parametrize(
    ("solutions", "reply", "chosen"),
    [
        ("C C B", "C", 0),
        ("C C B", "S3", 2),
        ("B A A", "The best is S2.", 1),
        ("x y z", "The best is B", 1),
        ("x y z", "\\boxed{B}", 1),
        ("x y z", '{"solution_letter": "B"}', 1),
        ("x y z", "I choose B because A is wrong", 1),
        ("x y z", "A is wrong, so I choose C.", 2),
        ("x y z", "I think that B", 1),
        ("41 42 42", "42", 1),
        ("x y z", "A or B", None),
        ("x y z", "I am not sure about a good one", None),
    ],
)
def test_a_choice_is_read_in_its_usual_forms(
    solutions: str, reply: str, chosen: int | None
) -> None:
    assert votes.chosen(reply, solutions.split()) == chosen


def test_every_solution_has_a_label() -> None:
    many = [f"text {number}" for number in range(40)]
    assert votes.chosen("S40", many) == 39
    assert "S40:\ntext 39" in votes.labelled(many)


async def test_without_a_letter_equal_texts_decide_and_ties_go_to_the_earliest() -> None:
    texts = ListValue((text("one"), text("Two"), text("two"), text("one  "), text("TWO")))
    found = await result(call("ScEnsemble", problem="problem", solutions=texts), "response", "?")
    assert found == "Two"
    tied = ListValue((text("b"), text("a")))
    found = await result(call("ScEnsemble", problem="problem", solutions=tied), "response", "?")
    assert found == "b"


async def test_nothing_is_asked_if_there_is_nothing_to_choose() -> None:
    for items, answer in (((), ""), ((text("a"),), "a"), ((text("a"), text("a")), "a")):
        executor = FakeExecutor()
        for name, field in (("ScEnsemble", "response"), ("MdEnsemble", "solution")):
            operator = call(name, problem="problem", solutions=ListValue(items))
            run = await play(answer_with(operator, field), executor)
            assert run.fault is not None, "the answer is the workflow's own"
            assert run.trace.children[0].reply == f"{field}: {answer}"
        assert executor.asked == []


def voter(wanted: str) -> object:
    """Return an executor that votes for a solution, wherever it stands."""

    def says(prompt: str) -> str:
        found = re.search(rf"^([A-Z]):\n{wanted}$", prompt, re.MULTILINE)
        assert found is not None
        return found[1]

    return says


async def test_shuffled_votes_find_the_solution_at_any_place() -> None:
    operator = call("MdEnsemble", problem="problem", solutions=THREE)
    for wanted in ("first", "second", "third"):
        assert await result(operator, "solution", voter(wanted)) == wanted


async def test_a_voter_for_a_place_prefers_no_solution() -> None:
    """With the orders of many runs, each solution wins about a third."""
    operator = answer_with(call("MdEnsemble", problem="problem", solutions=THREE), "solution")
    runs = [await play(operator, FakeExecutor(lambda _: "A"), seed=seed) for seed in range(200)]
    won = Counter(run.trace.reply for run in runs)
    assert set(won) == {"first", "second", "third"}
    assert max(won.values()) < 100
    again = await play(operator, FakeExecutor(lambda _: "A"), seed=7)
    assert again.trace.reply == runs[7].trace.reply


async def programmer(prints: object, says: object) -> tuple[WorkflowRun, RunningSandbox]:
    sandbox = RunningSandbox(prints)  # type: ignore[arg-type]
    executor = FakeExecutor(says)  # type: ignore[arg-type]
    operator = answer_with(call("Programmer", problem="problem"), "output")
    return await play(operator, executor, sandbox), sandbox


async def test_a_failed_program_is_written_again() -> None:
    def says(prompt: str) -> str:
        return "```python\nprint(42)\n```" if "planted error" in prompt else "print(1/0)"

    run, sandbox = await programmer(lambda code: "42\n" if "42" in code else None, says)
    assert run.answer == "42"
    assert sandbox.programs == ["print(1/0)", "print(42)"]
    assert (run.cost.calls, run.cost.programs, run.cost.sandbox_cpu_s) == (2, 2, 0.5)


async def test_three_failed_programs_are_an_outcome_of_the_workflow() -> None:
    run, sandbox = await programmer(lambda _: None, lambda _: "boom")
    assert (run.status, run.answer) == (RunEnding.ANSWERED, "")
    assert len(sandbox.programs) == 3
    assert "no program of 3 printed an answer" in run.trace.children[0].note


async def test_a_failed_sandbox_is_a_failure() -> None:
    class Broken(FakeSandbox):
        async def execute(self, request: ExecutionRequest) -> ExecutionResult:
            raise SandboxFault("planted")

    run = await play(answer_with(call("Programmer", problem="problem"), "output"), None, Broken())
    assert run.status is RunEnding.FAILED


TESTED = answer_with(call("Test", problem="problem", solution=text("pass 0")), "solution")


async def test_a_program_is_corrected_until_it_passes_the_public_tests() -> None:
    executor = FakeExecutor(lambda prompt: "pass 2" if "Program:\npass 1" in prompt else "pass 1")
    sandbox = FakeSandbox()
    run = await play(TESTED, executor, sandbox, cases=PUBLIC)
    assert run.answer == "pass 2"
    assert [one.code for one in sandbox.requests] == ["pass 0", "pass 1", "pass 2"]
    assert {one.cases for one in sandbox.requests} == {PUBLIC}
    assert "stdin 'in0', expected 'out0'" in executor.asked[0].prompt


async def test_corrections_are_bounded() -> None:
    executor = FakeExecutor(lambda _: "pass 1")
    run = await play(TESTED, executor, FakeSandbox(), cases=PUBLIC)
    assert run.answer == "pass 1"
    assert (run.cost.calls, run.cost.programs) == (3, 4)
    assert "result: False" in run.trace.children[0].reply


async def test_without_public_tests_nothing_is_tested() -> None:
    executor = FakeExecutor()
    run = await play(TESTED, executor)
    assert run.trace.children[0].reply == "result: False\nsolution: pass 0"
    assert executor.asked == []


@pytest.mark.parametrize(
    ("reply", "is_right"),
    [
        ("RIGHT. All steps hold.", "True"),
        ("**Wrong**: 7", "False"),
        ("It is right", "True"),
        ("The solution is RIGHT", "True"),
        ("Verdict: RIGHT", "True"),
        ("Verdict: WRONG. It is not RIGHT.", "False"),
        ("The solution is not right", "False"),
        ("It may be RIGHT or WRONG", "False"),
        ("right-hand sides agree", "False"),
    ],
)
async def test_a_review_without_a_finding_finds_nothing_right(reply: str, is_right: str) -> None:
    operator = call("Review", problem="problem", solution=text("x"))
    run = await play(answer_with(operator, "feedback"), FakeExecutor(lambda _: reply))
    assert run.answer == reply
    assert f"review_result: {is_right}" in run.trace.children[0].reply


async def test_a_tool_is_a_program_in_the_sandbox() -> None:
    sandbox = RunningSandbox(lambda code: "42" if "'6*7'" in code else None)
    tool = call("Tool", name=text("calculate"), input=text("6*7"))
    executor = FakeExecutor()
    run = await play(answer_with(tool, "output"), executor, sandbox)
    assert run.trace.children[0].reply == "output: 42\nsucceeded: True"
    assert executor.asked == []
    unknown = await play(answer_with(call("Tool", name=text("rm"), input=text("x")), "output"))
    assert unknown.fault is not None
    assert "known: calculate, python" in unknown.fault.message


def test_prompts_are_files_with_a_digest_and_values_are_never_searched() -> None:
    prompt = prompt_file("custom")
    filled = prompt.filled({"input": "{{instruction}}", "instruction": "do"})
    assert filled == "do\n\n{{instruction}}"
    assert prompt.digest == OperatorPrompt("x", prompt.text).digest
    assert prompt.digest != OperatorPrompt("custom", prompt.text + "!").digest
