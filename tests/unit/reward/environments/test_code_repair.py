"""Feedback on programs: short, and silent about hidden tests."""

import pytest

from assay_reward.environments import ENVIRONMENTS
from assay_reward.environments.code_repair import feedback
from assay_reward.instruments import Instruments
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import InvalidInput, SandboxFault
from assay_shared.types import (
    AssertCase,
    CallCase,
    CaseResult,
    EnvironmentTask,
    Grading,
    Status,
    StdinCase,
    StepResponse,
    Task,
    TestReport,
)
from tests.support.fakes import FakeJudge, FakeSandbox, make_task

WRONG, RIGHT = Status.WRONG_ANSWER, Status.ACCEPTED
FOUR = tuple(StdinCase(stdin=f"in{at}", expected_stdout=f"out{at}") for at in range(4))


def make(visible: int = 0, max_turns: int = 3) -> Task:
    instance = {"visible_tests": visible}
    return make_task(
        tests=FOUR,
        environment=EnvironmentTask(name="code_repair", instance=instance, max_turns=max_turns),
    )


async def step(task: Task, *turns: str, sandbox: FakeSandbox | None = None) -> StepResponse:
    instruments = Instruments(sandbox or FakeSandbox(), FakeJudge(), Symbolic(1.0))
    return await ENVIRONMENTS["code_repair"].step(task, turns, instruments)


def report(*cases: CaseResult) -> TestReport:
    status = next((c.status for c in cases if c.status is not RIGHT and c.status), RIGHT)
    return TestReport(status=status, cases=cases, grading=Grading.OUTSIDE, isolation="fake")


async def test_the_first_observation_is_the_prompt() -> None:
    first = await step(make())
    assert (first.observation, first.done) == ("question t", False)


async def test_an_accepted_program_ends_the_episode() -> None:
    response = await step(make(), "pass 1", "pass 4")
    assert response.done
    assert response.parts == {"accepted": 1.0, "pass_ratio": 1.0}
    assert response.observation == "Status: accepted. 4 of 4 tests passed."


async def test_a_wrong_program_may_be_mended_until_turns_are_out() -> None:
    going_on, over = await step(make(), "pass 1"), await step(make(), "a 1", "b 1", "pass 3")
    assert not going_on.done
    assert "1 of 4 tests passed" in going_on.observation
    assert "Turns left: 2" in going_on.observation
    assert over.done
    assert over.parts == {"accepted": 0.0, "pass_ratio": 0.75}


async def test_only_visible_tests_are_shown() -> None:
    hidden, visible = await step(make(0), "pass 0"), await step(make(2), "pass 0")
    assert "in0" not in hidden.observation
    assert "out0" not in hidden.observation
    assert "Test 2, stdin 'in1', expected output 'out1': wrong_answer" in visible.observation
    assert "in2" not in visible.observation
    assert "out2" not in visible.observation


def test_what_a_hidden_test_says_is_not_told() -> None:
    secret = CaseResult(status=Status.RUNTIME_ERROR, message="AssertionError: f(2) == 41")
    told = feedback(report(secret, secret), (), 1)
    assert "41" not in told
    assert "runtime_error" in told


def test_an_error_before_any_test_is_told_from_its_end() -> None:
    message = "long\n" * 500 + "SyntaxError: invalid syntax"
    told = feedback(report(CaseResult(status=Status.SYNTAX_ERROR, message=message)), (), 1)
    assert "SyntaxError: invalid syntax" in told
    assert len(told) < 800


@pytest.mark.parametrize(
    ("case", "shown"),
    [
        (CallCase(function="f", args=(1, "a"), expected=[2]), "f(1, 'a'), expected [2]"),
        (AssertCase(code="assert f(1) == 2\n"), "assert f(1) == 2"),
    ],
)
def test_each_kind_of_test_is_shown(case: CallCase | AssertCase, shown: str) -> None:
    assert shown in feedback(report(CaseResult(status=WRONG, message="returned 3")), (case,), 1)


def test_feedback_stays_short_however_large_the_tests() -> None:
    cases = tuple(StdinCase(stdin="9" * 10**5, expected_stdout="8" * 10**5) for _ in range(50))
    results = [CaseResult(status=WRONG, message="x" * 10**5) for _ in range(50)]
    told = feedback(report(*results), cases, 1)
    assert told.count("Test ") == 3
    assert len(told) < 1800


async def test_a_sandbox_that_fails_is_not_the_programs_fault() -> None:
    with pytest.raises(SandboxFault):
        await step(make(), "fail", sandbox=FakeSandbox(SandboxFault("no slot")))


@pytest.mark.parametrize(
    ("task", "turns", "message"),
    [
        (make_task(), (), "task.environment: task t is not played anywhere"),
        (
            make_task(environment=EnvironmentTask(name="or_debug", instance={})),
            (),
            "task.environment.name: task t is played in 'or_debug', not in 'code_repair'",
        ),
        (make().model_copy(update={"tests": ()}), (), "task.tests"),
        (make(max_turns=1), ("a", "b"), "turns: the episode ends after 1 turns"),
        (
            make_task(environment=EnvironmentTask(name="code_repair", instance={"visible": 1})),
            (),
            "task.environment.instance.visible",
        ),
    ],
)
async def test_what_cannot_be_played_is_the_callers_fault(
    task: Task, turns: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        await step(task, *turns)
