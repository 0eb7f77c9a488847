from collections.abc import Iterator

import pytest

from assay_reward.measurement import Instruments, Measured, Sitting
from assay_reward.verifiers.code import accepted, pass_ratio, whole_program
from assay_reward.verifiers.judged import judged
from assay_reward.verifiers.math import final_value, math, same_number
from assay_shared.errors import InvalidInput, JudgeFault, SandboxFault, TimedOut
from assay_shared.symbolic import Symbolic
from assay_shared.types import Failure, FailureClass, Status, StdinCase
from tests.fakes import FakeJudge, FakeSandbox, make_task

FOUR_TESTS = (StdinCase(stdin="", expected_stdout="1"),) * 4


@pytest.fixture(scope="module")
def symbolic() -> Iterator[Symbolic]:
    symbolic = Symbolic(timeout_s=20.0)
    yield symbolic
    symbolic.close()


def sitting(
    *answers: str,
    sandbox: FakeSandbox | None = None,
    judge: FakeJudge | None = None,
    symbolic: Symbolic | None = None,
    **task: object,
) -> Sitting:
    instruments = Instruments(
        sandbox or FakeSandbox(), judge or FakeJudge(), symbolic or Symbolic(1.0)
    )
    changes: dict[str, object] = {"tests": FOUR_TESTS} | task
    return Sitting(make_task("t", **changes), answers, instruments)


def values(measured: list[Measured | Failure]) -> list[float | None]:
    return [one.value if isinstance(one, Measured) else None for one in measured]


# Code


async def test_dense_and_sparse_share_one_run_of_the_tests() -> None:
    sandbox = FakeSandbox()
    group = sitting("pass 4", "pass 1", "pass 0", sandbox=sandbox)
    assert values(await pass_ratio(group)) == [1.0, 0.25, 0.0]
    assert values(await accepted(group)) == [1.0, 0.0, 0.0]
    assert len(sandbox.requests) == 3


async def test_a_sandbox_that_fails_on_one_program_fails_that_one_alone() -> None:
    sandbox = FakeSandbox(SandboxFault("no slot"))
    measured = await pass_ratio(sitting("pass 4", "fail", "pass 2", sandbox=sandbox))
    assert values(measured) == [1.0, None, 0.5]
    failure = measured[1]
    assert isinstance(failure, Failure)
    assert failure.failure_class is FailureClass.SANDBOX


async def test_code_without_tests_is_the_callers_fault() -> None:
    with pytest.raises(InvalidInput, match="task.tests: task t has no tests"):
        await accepted(sitting("pass 1", tests=()))


@pytest.mark.parametrize(
    ("prefix", "answer", "program"),
    [
        ("", "x = 1", "x = 1"),
        ("", "Here:\n```python\nx = 1\n```\nDone.", "x = 1\n"),
        ("", "```\nx = 1\n```", "x = 1\n"),
        ("def f(x):\n", "    return x\n", "def f(x):\n    return x\n"),
        (
            "import math\n\ndef f(x):\n    '''doc'''\n",
            "def f(x):\n    return x\n",
            "import math\n\ndef f(x):\n    '''doc'''\n    pass\n\ndef f(x):\n    return x\n",
        ),
        (
            "def f(x):\n",
            "    def g(y):\n        return y\n    return g(x)\n",
            "def f(x):\n    def g(y):\n        return y\n    return g(x)\n",
        ),
    ],
)
def test_answers_become_whole_programs(prefix: str, answer: str, program: str) -> None:
    assert whole_program(make_task(code_prefix=prefix), answer) == program


# Math


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("27", "27"),
        ("3 + 4 = 7", "7"),
        ("first 12, then\n#### 1,234", "1,234"),
        (r"so \boxed{\frac{1}{2}} it is, 3", r"\frac{1}{2}"),
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"\boxed{1", "1"),
        ("the answer is -3.5.", "-3.5"),
        ("no number", None),
        ("", None),
    ],
)
def test_the_final_value_of_a_text(text: str, value: str | None) -> None:
    assert final_value(text) == value


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("7", "7.0", True),
        ("1,000", "1000", True),
        ("$5", "5", True),
        ("1/2", "0.5", True),
        ("7", "8", False),
        ("x", "7", None),
        ("9" * 1000, "7", None),
    ],
)
def test_numbers_are_compared_exactly(one: str, other: str, same: bool | None) -> None:
    assert same_number(one, other) is same


async def test_formulas_are_compared_by_value(symbolic: Symbolic) -> None:
    group = sitting(
        r"\boxed{\frac{2}{4}}", r"\boxed{\frac{1}{3}}", "0.5", symbolic=symbolic,
        reference=r"\boxed{\frac{1}{2}}",
    )  # fmt: skip
    assert values(await math(group)) == [1.0, 0.0, 1.0]


async def test_a_hostile_formula_ends_in_a_failure_and_not_in_a_score() -> None:
    symbolic = Symbolic(timeout_s=0.001)
    try:
        (measured,) = await math(
            sitting(r"\boxed{9^{9^{9^{9}}}}", symbolic=symbolic, reference=r"\boxed{x+1}")
        )
    finally:
        symbolic.close()
    assert isinstance(measured, Failure)
    assert TimedOut.failure_class is measured.failure_class


async def test_math_without_a_reference_is_the_callers_fault() -> None:
    with pytest.raises(InvalidInput, match="task.reference"):
        await math(sitting("7", gold=None))


# Judge


async def test_the_judge_sees_question_answers_and_reference() -> None:
    judge = FakeJudge()
    measured = await judged(sitting("red", "blue", judge=judge, reference="red"))
    assert values(measured) == [1.0, 0.0]
    (request,) = judge.requests
    assert (request.question, request.answers) == ("question t", ("red", "blue"))


async def test_an_abstaining_judge_is_a_failure_of_every_answer() -> None:
    measured = await judged(sitting("red", "blue", judge=FakeJudge(JudgeFault("empty reply"))))
    assert values(measured) == [None, None]
    assert all(isinstance(m, Failure) and m.failure_class is FailureClass.JUDGE for m in measured)


def test_wrong_is_a_score_and_not_a_failure() -> None:
    assert Measured(0.0, Status.WRONG_ANSWER).value == 0.0
