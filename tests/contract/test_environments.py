"""Environments over HTTP: an action at a time, with the real solver and sandbox behind it."""

import asyncio

import aiohttp
import pytest

from assay_reward.app import create_app as create_reward
from assay_reward.settings import RewardSettings
from assay_sandbox.app import create_app as create_sandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.clients import RewardClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import InvalidInput, NotFound, Overloaded, TimedOut
from assay_shared.interfaces import Environment
from assay_shared.types import (
    CallCase,
    EnvironmentTask,
    Scored,
    ScoreRequest,
    StepRequest,
    StepResponse,
    Task,
)
from tests.conftest import Serve
from tests.support.fakes import make_task
from tests.support.or_debug.planted import HARD, REPAIR, make_or_task

TASK = make_or_task()
PROGRAM = make_task(
    "double",
    tests=tuple(CallCase(function="f", args=(x,), expected=2 * x) for x in (1, 2, 3)),
    environment=EnvironmentTask(name="code_repair", instance={"visible_tests": 1}, max_turns=4),
)


async def play(environment: Environment, task: Task, *turns: str) -> list[StepResponse]:
    """The responses to each turn, the first observation before them."""
    parts = [turns[:length] for length in range(len(turns) + 1)]
    return [await environment.step(StepRequest(task=task, turns=part)) for part in parts]


async def test_a_model_is_repaired_over_http(serve: Serve) -> None:
    async with RewardClient(serve(create_reward(RewardSettings())), retry=NO_RETRY) as client:
        first, iis, dropped, submitted = await play(client, TASK, *REPAIR)
        assert first.observation == TASK.prompt
        assert "c3: x1 + x2 >= 12" in iis.observation
        assert dropped.facts["status"] == "optimal"
        assert dropped.parts["root_cause"] == 1.0
        assert [r.done for r in (first, iis, dropped, submitted)] == [False, False, False, True]
        response = await client.score(ScoreRequest(task=TASK, answers=(REPAIR, "gives up")))
    right, wrong = response.rewards
    assert isinstance(right, Scored)
    assert isinstance(wrong, Scored)
    assert right.value > 0.9
    assert wrong.value == 0.0


@pytest.mark.slow
async def test_any_replica_can_take_the_next_turn(serve: Serve) -> None:
    answers = []
    for _ in range(2):
        async with RewardClient(serve(create_reward(RewardSettings())), retry=NO_RETRY) as client:
            answers.append(await client.step(StepRequest(task=TASK, turns=REPAIR[:2])))
    assert answers[0] == answers[1]


async def test_a_program_is_mended_over_http(serve: Serve) -> None:
    sandbox = serve(create_sandbox(SandboxSettings()))
    url = serve(create_reward(RewardSettings(sandbox_url=sandbox)))
    async with RewardClient(url, retry=NO_RETRY) as client:
        _, broken, wrong, right = await play(
            client,
            PROGRAM,
            "def f(x:",
            "def f(x):\n    return x + 1",
            "```python\ndef f(x):\n    return 2 * x\n```",
        )
    assert "SyntaxError" in broken.observation
    assert "Tests passed: less than half." in wrong.observation
    assert "f(2)" not in wrong.observation
    assert not wrong.done
    assert right.done


async def test_the_environments_are_listed(serve: Serve) -> None:
    async with RewardClient(serve(create_reward(RewardSettings())), retry=NO_RETRY) as client:
        listed = await client.environments()
    assert [one.name for one in listed] == ["code_repair", "or_debug", "workflow"]
    assert all(one.description for one in listed)


async def test_a_solver_out_of_time_is_an_error_and_no_observation(serve: Serve) -> None:
    settings = RewardSettings(reward_solve_timeout_s=0.05)
    async with RewardClient(serve(create_reward(settings)), retry=NO_RETRY) as client:
        with pytest.raises(TimedOut) as error:
            await client.step(StepRequest(task=make_or_task(HARD), turns=REPAIR[:1]))
    assert error.value.retryable


async def test_too_many_steps_at_once_are_told_when_to_come_again(serve: Serve) -> None:
    url = serve(
        create_reward(RewardSettings(reward_max_steps_running=1, reward_max_steps_waiting=1))
    )

    async def one(client: RewardClient, at: int) -> StepResponse | Overloaded:
        try:
            return await client.step(StepRequest(task=TASK, turns=(f"turn {at}",)))
        except Overloaded as refusal:
            return refusal

    async with RewardClient(url, retry=NO_RETRY) as client:
        answers = await asyncio.gather(*(one(client, at) for at in range(12)))
    refused = [answer for answer in answers if isinstance(answer, Overloaded)]
    assert refused
    assert len(refused) < len(answers)
    assert all(refusal.retry_after_s for refusal in refused)


async def test_what_cannot_be_played_says_why(serve: Serve) -> None:
    url = serve(create_reward(RewardSettings()))
    body = StepRequest(task=TASK).model_dump_json()
    async with RewardClient(url, retry=NO_RETRY) as client:
        with pytest.raises(InvalidInput, match="task t is not played anywhere"):
            await client.step(StepRequest(task=make_task()))
        nowhere = make_task(environment=EnvironmentTask(name="chess", instance={}))
        with pytest.raises(NotFound, match="no environment is called chess"):
            await client.step(StepRequest(task=nowhere))
        with pytest.raises(InvalidInput, match="turns: the episode ended with turn 3"):
            await client.step(StepRequest(task=TASK, turns=(*REPAIR, "more")))
        unreadable = TASK.model_copy(
            update={"environment": EnvironmentTask(name="or_debug", instance={"id": "x1"})}
        )
        with pytest.raises(InvalidInput, match="task.environment.instance.error_type"):
            await client.step(StepRequest(task=unreadable, turns=("x1",)))
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{url}/v1/environments/code_repair/step",
            data=body,
            headers={"content-type": "application/json"},
        ) as response,
    ):
        assert response.status == 422
