from collections.abc import Awaitable
from typing import cast

import pytest

from assay_reward.instruments import ComponentUsage, Instruments
from assay_reward.verifiers.code import ACCEPTED, PASS_RATIO, CodeOptions
from assay_reward.verifiers.judged import JUDGE
from assay_reward.verifiers.math import MATH
from assay_reward.verifiers.verifier import GroupContext, Measurement
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.answers.whole_program import whole_program
from assay_shared.errors import InvalidInput, JudgeFault, SandboxFault
from assay_shared.types import Answer, Limits
from tests.support.fakes import FakeJudge, FakeSandbox, make_task
from tests.support.reward.measuring import FOUR_TESTS, assert_too_hard, find, measure

# Code


async def test_dense_and_sparse_share_one_run_of_the_tests() -> None:
    sandbox = FakeSandbox()
    instruments = Instruments(sandbox, FakeJudge(), Symbolic(1.0))
    group = GroupContext(make_task("t", tests=FOUR_TESTS), (Answer(text="pass 1"),), instruments)
    meters = ComponentUsage(), ComponentUsage()
    dense, sparse = [
        await cast(Awaitable[object], verifier.measure(group.candidate(0, meter), CodeOptions()))
        for verifier, meter in zip((PASS_RATIO, ACCEPTED), meters, strict=True)
    ]
    assert isinstance(dense, Measurement)
    assert isinstance(sparse, Measurement)
    assert (dense.value, sparse.value) == (0.25, 0.0)
    assert len(sandbox.requests) == 1


async def test_a_sandbox_that_fails_on_one_program_fails_that_one_alone() -> None:
    sandbox = FakeSandbox(SandboxFault("no slot"))
    assert await measure(PASS_RATIO, "pass 4", "fail", "pass 2", sandbox=sandbox) == [1, None, 0.5]


@pytest.mark.parametrize("forgeable", [True, False])
async def test_forgeable_tests_can_be_refused(forgeable: bool) -> None:
    sandbox = FakeSandbox()
    await measure(ACCEPTED, "pass 1", sandbox=sandbox, options={"forgeable": forgeable})
    assert [request.hackable for request in sandbox.requests] == [forgeable]


async def test_code_without_tests_is_the_callers_fault() -> None:
    with pytest.raises(InvalidInput, match="task.tests: task t has no tests"):
        await measure(ACCEPTED, "pass 1", tests=())


async def test_a_task_may_have_limits_of_its_own() -> None:
    sandbox = FakeSandbox()
    checks = {"limits": {"cpu_time_s": 20.0}}
    await measure(ACCEPTED, "pass 1", sandbox=sandbox, checks=checks)
    assert sandbox.requests[0].limits == Limits(cpu_time_s=20.0)
    wrong = {"limits": {"cpu_time_s": -1}}
    with pytest.raises(InvalidInput, match=r"task.checks.limits.cpu_time_s: Input should be"):
        await measure(ACCEPTED, "pass 1", checks=wrong)


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


async def test_formulas_are_compared_by_value(symbolic: Symbolic) -> None:
    answers = (r"\boxed{\frac{2}{4}}", r"\boxed{\frac{1}{3}}", "0.5")
    found = await measure(MATH, *answers, symbolic=symbolic, reference=r"\boxed{\frac{1}{2}}")
    assert found == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "formula", ["9^{9^{9^{9}}}", "".join(rf"(\sqrt{{x+{n}}}+y)" for n in range(2, 30))]
)
@pytest.mark.slow
async def test_a_hostile_formula_is_too_hard(formula: str) -> None:
    symbolic = Symbolic(0.1)
    try:
        (found,) = await find(
            MATH, rf"\boxed{{{formula}}}", symbolic=symbolic, reference=r"\boxed{x+1}"
        )
    finally:
        symbolic.close()
    assert_too_hard(found)


async def test_a_reference_is_taken_whole(symbolic: Symbolic) -> None:
    right = (r"\boxed{\frac12}", "0.5", r"The answer is $\frac{1}{2}$.", r"\boxed{50\%}")
    wrong = (r"\boxed{2}", "1", r"\boxed{1}", r"\boxed{\frac{2}{1}}")
    found = await measure(MATH, *right, *wrong, symbolic=symbolic, reference=r"\frac{1}{2}")
    assert found == [1.0] * 4 + [0.0] * 4


async def test_a_reference_that_marks_its_answer_is_read_there(symbolic: Symbolic) -> None:
    for reference in (r"So 1 + 2 = \boxed{3}", "So 1 + 2 = 3\n#### 3"):
        found = await measure(MATH, "3", "1", symbolic=symbolic, reference=reference)
        assert found == [1.0, 0.0]


async def test_an_answer_that_names_several_values_has_none_of_them(symbolic: Symbolic) -> None:
    several = (r"\boxed{5 or 6}", r"\boxed{5, 6}", r"\boxed{5 6}", r"\boxed{6 \pm 1}")
    assert await measure(MATH, *several, symbolic=symbolic, reference="6") == [0.0] * 4


@pytest.mark.parametrize(
    ("prompt", "value"), [("What percentage is left?", 1.0), ("How many are left?", 0.0), ("", 0.0)]
)
async def test_a_percent_sign_is_right_where_the_prompt_asks_for_it(
    prompt: str, value: float
) -> None:
    assert await measure(MATH, "It is 75%.", reference="75", prompt=prompt) == [value]


async def test_math_without_a_reference_is_the_callers_fault() -> None:
    with pytest.raises(InvalidInput, match="task.reference"):
        await measure(MATH, "7", gold=None)


# Judge


async def test_the_judge_sees_question_answers_and_reference() -> None:
    judge = FakeJudge()
    assert await measure(JUDGE, "red", "blue", judge=judge, reference="red") == [1.0, 0.0]
    assert [r.question for r in judge.requests] == ["question t"]
    assert judge.requests[0].answers == ("red", "blue")


async def test_an_abstention_is_a_failure() -> None:
    judge = FakeJudge(JudgeFault("empty reply"))
    assert await measure(JUDGE, "red", judge=judge) == [None]
