"""Feedback on programs: short, and silent about hidden tests."""

import pytest

from assay_reward.environments import ENVIRONMENTS
from assay_reward.instruments import Instruments
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import InvalidInput, SandboxFault
from assay_shared.types import (
    EnvironmentTask,
    StdinCase,
    StepResponse,
    Task,
)
from tests.support.fakes import FakeJudge, FakeSandbox, make_task

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


async def test_the_first_observation_is_the_prompt() -> None:
    first = await step(make())
    assert (first.observation, first.done) == ("question t", False)


async def test_an_accepted_program_ends_the_episode() -> None:
    response = await step(make(), "pass 1", "pass 4")
    assert response.done
    assert response.parts == {"accepted": 1.0, "pass_ratio": 1.0}
    assert response.observation == "The program is right: all tests passed."


async def test_a_wrong_program_may_be_mended_until_turns_are_out() -> None:
    going_on, over = await step(make(), "pass 1"), await step(make(), "a 1", "b 1", "pass 3")
    assert not going_on.done
    assert "Tests passed: less than half." in going_on.observation
    assert "Turns left: 2" in going_on.observation
    assert over.done
    assert over.parts == {"accepted": 0.0, "pass_ratio": 0.75}


async def test_the_public_tests_are_run_by_themselves() -> None:
    sandbox = FakeSandbox()
    response = await step(make(2), "pass 1", sandbox=sandbox)
    assert [one.cases for one in sandbox.requests] == [FOUR, FOUR[:2]]
    assert "stdin 'in1', expected 'out1': wrong_answer" in response.observation
    assert "in2" not in response.observation


async def test_without_public_tests_nothing_is_shown() -> None:
    sandbox = FakeSandbox()
    response = await step(make(0), "pass 0", sandbox=sandbox)
    assert len(sandbox.requests) == 1
    assert response.observation == (
        "The program is not right: wrong_answer. Tests passed: none.\n"
        "Reply with the whole corrected program.\nTurns left: 2."
    )


async def test_a_task_may_name_its_public_tests() -> None:
    task = make().model_copy(update={"checks": {"public": 1}})
    named = task.model_copy(
        update={"environment": EnvironmentTask(name="code_repair", instance={}, max_turns=3)}
    )
    assert "in0" in (await step(named, "pass 0")).observation


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
