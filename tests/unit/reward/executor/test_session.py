"""Budgets of workflows, against a real server: each end is typed, and no limit is passed."""

import asyncio
import pickle
import time
from typing import Any

import pytest

from assay_reward.executor.config import WorkflowBudget
from assay_reward.executor.executor import Executor
from assay_reward.executor.requests import ExecutorReply
from assay_reward.executor.session import WorkflowBudgetSpent, WorkflowSession
from assay_shared.errors import to_failure
from assay_shared.types import FailureClass
from tests.support.chat_models import ChatModel, Said
from tests.unit.reward.executor.test_executor import REPLY, ask, executor_of


async def until_spent(executor: Executor, session: WorkflowSession) -> WorkflowBudgetSpent:
    """Call one after the other until the budget is spent."""
    for _ in range(1000):
        try:
            await executor.complete(ask("q"), session)
        except WorkflowBudgetSpent as error:
            return error
    raise AssertionError("a budget without an end")


def budget(**limits: Any) -> WorkflowBudget:
    return WorkflowBudget.model_validate(limits)


async def test_the_calls_of_a_workflow_are_limited() -> None:
    model = ChatModel(lambda body: REPLY)
    async with executor_of(model) as executor:
        session = executor.start(budget=budget(max_calls=3))
        error = await until_spent(executor, session)
        calls = [executor.complete(ask("q"), executor.start(budget=budget(max_calls=2)))]
        await asyncio.gather(*calls)
    assert str(error) == "the workflow's budget of 3 calls is spent"
    assert (error.limit, error.is_own) == ("calls", True)
    failure = to_failure(error, "reward")
    assert (failure.failure_class, failure.service) == (FailureClass.BUDGET, "executor")
    assert not failure.retryable
    assert len(model.bodies) == 4


async def test_branches_together_pass_no_limit() -> None:
    model = ChatModel(lambda body: REPLY._replace(delay_s=0.02))
    async with executor_of(model) as executor:
        session = executor.start(budget=budget(max_calls=10))
        calls = [executor.complete(ask("q"), session) for _ in range(30)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert len(model.bodies) <= 10
    assert any(isinstance(end, WorkflowBudgetSpent) for end in ended)


@pytest.mark.parametrize("is_parallel", [False, True])
async def test_tokens_are_limited_whether_calls_are_parallel_or_not(is_parallel: bool) -> None:
    """Each of 8 calls may use 65 tokens and uses 15: all fit into 200, one after the other."""
    model = ChatModel(lambda body: REPLY._replace(delay_s=0.01))
    async with executor_of(model) as executor:
        session = executor.start(budget=budget(max_tokens=200))
        if is_parallel:
            await asyncio.gather(*(executor.complete(ask("q"), session) for _ in range(8)))
        else:
            for _ in range(8):
                await executor.complete(ask("q"), session)
        assert session.spending.tokens == 120
        error = await until_spent(executor, session)
    assert (error.limit, error.is_own) == ("tokens", True)
    assert session.spending.tokens <= 200
    if is_parallel:
        assert 1 < model.max_running <= 3


async def test_replies_in_vain_count_and_are_not_the_workflows_own_spending() -> None:
    model = ChatModel(lambda body: Said("", prompt_tokens=1, completion_tokens=64))
    async with executor_of(model, attempts=20, max_tokens_limit=64) as executor:
        session = executor.start(budget=budget(max_tokens=300))
        error = await until_spent(executor, session)
    assert (error.limit, error.is_own) == ("tokens", False)
    assert len(model.bodies) == 4
    assert session.spending.tokens == 4 * 65


async def test_a_workflow_that_fell_back_has_what_is_left_of_its_budget() -> None:
    first = ChatModel(lambda body: Said("", prompt_tokens=1, completion_tokens=64))
    second = ChatModel(lambda body: REPLY)
    async with executor_of(first, second, attempts=3, max_tokens_limit=64) as executor:

        async def workflow(session: WorkflowSession) -> list[ExecutorReply]:
            return [await executor.complete(ask("q"), session) for _ in range(4)]

        with pytest.raises(WorkflowBudgetSpent) as raised:
            await executor.run(executor.start(budget=budget(max_tokens=290)), workflow)
        assert (raised.value.limit, raised.value.is_own) == ("tokens", False)
        with pytest.raises(WorkflowBudgetSpent) as raised:
            await executor.run(executor.start(budget=budget(max_calls=4)), workflow)
        assert (raised.value.limit, raised.value.is_own) == ("calls", False)
    assert len(second.bodies) == 3 + 3


async def test_time_ends_a_call_in_flight() -> None:
    model = ChatModel(lambda body: REPLY._replace(delay_s=5.0))
    other = ChatModel(lambda body: REPLY)
    async with executor_of(model, other) as executor:
        session = executor.start(budget=budget(timeout_s=0.2))
        started = time.monotonic()
        error = await until_spent(executor, session)
        assert 0.15 < time.monotonic() - started < 4.0
        assert (error.limit, error.is_own) == ("time", False)
        with pytest.raises(WorkflowBudgetSpent):
            await executor.complete(ask("q"), session)
    assert other.bodies == []


@pytest.mark.parametrize("prompt_tokens", [5, 100])
async def test_a_cached_reply_counts_as_much_as_a_new_one(prompt_tokens: int) -> None:
    said = Said("four", prompt_tokens=prompt_tokens, completion_tokens=50)
    model = ChatModel(lambda body: said)
    async with executor_of(model, cache=True) as executor:
        spent = []
        for _ in range(2):
            session = executor.start(budget=budget(max_tokens=500))
            error = await until_spent(executor, session)
            spent.append((error.limit, error.is_own, session.spending.tokens))
        assert len(model.bodies) == 1
    async with executor_of(model) as executor:
        session = executor.start(budget=budget(max_tokens=500))
        error = await until_spent(executor, session)
        spent.append((error.limit, error.is_own, session.spending.tokens))
    assert spent == [("tokens", True, 440 if prompt_tokens == 5 else 450)] * 3


def test_the_error_survives_pickling() -> None:
    error = WorkflowSession(budget(max_tokens=9)).spent("tokens", is_own=True)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.limit, again.is_own) == (str(error), "tokens", True)


def test_only_a_fallback_starts_a_session_again() -> None:
    with pytest.raises(ValueError, match="ended by a WorkflowFallback"):
        WorkflowSession(budget()).restarted()
