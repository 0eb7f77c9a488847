"""Episodes of workflows: what the policy reads, and what it never reads."""

import json
from typing import Any

import pytest

from assay_reward.environments import ENVIRONMENTS
from assay_shared.errors import ConfigError, ExecutorFault, InvalidInput
from assay_shared.types import StepResponse, Task
from tests.support.workflows import (
    EDITED,
    ENDLESS,
    INVALID,
    MISSPELT,
    ONE_CALL,
    FakeExecutor,
    make_instruments,
    make_workflow_task,
)

TASK = make_workflow_task(max_turns=3)


async def step(
    *turns: str, task: Task = TASK, executor: FakeExecutor | None = None
) -> StepResponse:
    used = executor or FakeExecutor(lambda _: "It is six sevens.\nAnswer: 40")
    return await ENVIRONMENTS["workflow"].step(task, turns, make_instruments(used))


async def test_the_first_observation_is_the_prompt() -> None:
    first = await step()
    assert (first.observation, first.done) == (TASK.prompt, False)


async def test_an_invalid_workflow_is_answered_by_its_problems() -> None:
    response = await step(INVALID)
    assert "line 1, column 30: there is no nothing" in response.observation
    assert "Turns left: 2" in response.observation
    assert not response.done
    assert response.parts == {"valid": 0.0, "success": 0.0, "num_repairs": 0.0}


async def test_a_run_is_answered_by_an_outline_and_its_answer() -> None:
    response = await step(f"Here it is:\n```\n{EDITED}\n```")
    for said in (
        "AnswerGenerate (line 2): 15 tokens",
        "Format (line 3): 15 tokens",
        "Used: 2 calls, 30 tokens, 0 programs.",
        "Answer: It is six sevens.\nAnswer: 40",
    ):
        assert said in response.observation
    assert response.parts == {"valid": 1.0, "success": 1.0, "num_repairs": 0.0}
    assert "wrong" not in response.observation.lower()


async def test_no_text_for_the_policy_or_the_executor_has_the_answer() -> None:
    """The gold answer, the reference and the hidden tests are in the task, and stay there."""
    secret = "a-gold-answer"
    task = TASK.model_copy(update={"gold": secret, "reference": secret, "checks": {"f1": secret}})
    executor = FakeExecutor(lambda _: "no")
    for turns in ((), (ONE_CALL,), (INVALID,), (ENDLESS,), (ONE_CALL, EDITED, ONE_CALL)):
        response = await step(*turns, task=task, executor=executor)
        assert secret not in response.observation
        assert secret not in json.dumps(response.facts)
    assert executor.asked
    assert not [one for one in executor.asked if secret in one.prompt]


async def test_repairs_are_told() -> None:
    response = await step(MISSPELT)
    assert "answer_generate is now AnswerGenerate" in response.observation
    assert response.parts["num_repairs"] == 1.0


async def test_a_spent_budget_is_told() -> None:
    task = make_workflow_task(max_turns=3, budgets={"calls": 2})
    response = await step(ENDLESS, task=task)
    assert "stopped: the budget of 2 calls of the executor is spent" in response.observation
    assert response.parts["valid"] == 1.0
    assert response.parts["success"] == 0.0


async def test_the_policy_may_keep_its_workflow() -> None:
    executor = FakeExecutor()
    response = await step(ONE_CALL, " Keep.", executor=executor)
    assert response.done
    assert executor.asked == [], "nothing new was written"
    assert not (await step("keep")).done, "there is nothing to keep yet"


async def test_the_last_turn_ends_the_episode() -> None:
    assert (await step(INVALID, INVALID, ONE_CALL)).done
    with pytest.raises(InvalidInput, match="3 turns"):
        await step(INVALID, INVALID, ONE_CALL, ONE_CALL)


async def test_a_failed_executor_is_an_error_and_no_observation() -> None:
    with pytest.raises(ExecutorFault, match="planted"):
        await step(ONE_CALL, executor=FakeExecutor(lambda _: ExecutorFault("planted")))


async def test_a_turn_is_played_once() -> None:
    executor = FakeExecutor()
    instruments = make_instruments(executor)
    for turns in ((ONE_CALL,), (ONE_CALL,), (ONE_CALL, "keep"), (INVALID, ONE_CALL)):
        await ENVIRONMENTS["workflow"].step(TASK, turns, instruments)
    assert len(executor.asked) == 2, "the same turns have the same run"


async def test_a_service_without_an_executor_says_so() -> None:
    instruments = make_instruments(FakeExecutor())
    bare = type(instruments)(instruments.sandbox, instruments.judge, instruments.symbolic)
    with pytest.raises(ConfigError, match="ASSAY_EXECUTOR_CONFIG"):
        await ENVIRONMENTS["workflow"].step(TASK, (ONE_CALL,), bare)


@pytest.mark.parametrize(
    ("instance", "field"),
    [
        ({"problem": ""}, "problem"),
        ({"rubric": ""}, "rubric"),
        ({"budgets": {"time_s": 1}}, "budgets"),
        ({"depth": 3}, "depth"),
        ({"problem": "x" * 16_385}, "budgets"),
        ({"problem": "x" * 40, "budgets": {"text_chars": 79}}, "text_chars"),
    ],
)
async def test_an_unusable_instance_is_refused_by_its_field(
    instance: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        await step(ONE_CALL, task=make_workflow_task(**instance))
    assert field in str(raised.value)


async def test_a_turn_after_the_end_is_the_caller_s() -> None:
    assert (await step(ONE_CALL, "keep", "keep")).done
    with pytest.raises(InvalidInput, match="turn 2 keeps the workflow"):
        await step(ONE_CALL, "keep", EDITED)
