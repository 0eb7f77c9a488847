"""Workflows on the service's executor, over real HTTP to models that fail on purpose."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from assay_reward.executor.config import ExecutorConfig
from assay_reward.executor.executor import Executor, make_executor
from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.execution.model_sessions import SessionExecutor
from assay_reward.workflows.execution.run import RunEnding, WorkflowRun
from assay_reward.workflows.language.tree import Assign, FieldOf, Return
from assay_shared.types import FailureClass
from tests.support.chat_models import ChatModel, Said
from tests.support.workflows import DIRECT, call, play, text, workflow

BUDGETS = RunBudgets()
TWO = workflow(
    Assign("a", call("AnswerGenerate", input="problem")),
    Assign("b", call("Custom", input=FieldOf("a", "answer"), instruction=text("Go on."))),
    Return(FieldOf("b", "response")),
)


@asynccontextmanager
async def executor_of(
    *replies: Callable[[dict[str, Any]], Said],
    attempts: int = 4,
    price: float = 0.0,
    budget: Mapping[str, float] | None = None,
) -> AsyncIterator[Executor]:
    """Serve a model for each function; the first is the first choice."""
    async with AsyncExitStack() as stack:
        served = [await stack.enter_async_context(ChatModel(one).served()) for one in replies]
        prices = {"input_per_million": price, "output_per_million": price}
        options: dict[str, Any] = {"model": "m", "attempts": attempts, "open_after": 10**6}
        options["price"] = prices
        chain = [
            {"name": f"m{number}", "base_url": model.url} | options
            for number, model in enumerate(served)
        ]
        config = ExecutorConfig.model_validate({"models": chain, "budget": budget or {}})
        executor = make_executor(config, None, CollectorRegistry())
        yield await stack.enter_async_context(executor.opened())


async def runs_of(executor: Executor, number: int) -> list[WorkflowRun]:
    return await asyncio.gather(
        *(
            play(TWO, SessionExecutor.begin(executor, BUDGETS), seed=seed, budgets=BUDGETS)
            for seed in range(number)
        )
    )


def sometimes_empty(share: float) -> Callable[[dict[str, Any]], Said]:
    rng = random.Random(3)
    return lambda _: Said("" if rng.random() < share else "Answer: 42")


async def test_with_13_percent_of_replies_empty_retries_leave_no_gap() -> None:
    async with executor_of(sometimes_empty(0.13)) as executor:
        runs = await runs_of(executor, 150)
    assert {one.status for one in runs} == {RunEnding.ANSWERED}
    assert {one.cost.tokens for one in runs} == {30}, "a retry is not on the workflow's account"


async def test_a_reply_that_stays_empty_is_a_failure_with_the_fallback_apart() -> None:
    async with executor_of(
        sometimes_empty(0.13), lambda _: Said("from the second"), attempts=1
    ) as executor:
        runs = await runs_of(executor, 150)
    failed = [one for one in runs if one.status is RunEnding.FAILED]
    assert 150 * 0.12 < len(failed) < 150 * 0.4
    for run in runs:
        if run.status is RunEnding.ANSWERED:
            assert run.fallback is None
            continue
        assert run.failure is not None
        assert run.failure.failure_class is FailureClass.EXECUTOR
        assert run.answer is None
        assert run.fallback is not None
        assert run.fallback.answer == "from the second"
        assert run.fallback.executor == "m1"


async def test_one_slow_reply_delays_no_other_workflow() -> None:
    def says(body: dict[str, Any]) -> Said:
        slow = "slow" in body["messages"][0]["content"]
        return Said("Answer: 1", delay_s=2.0 if slow else 0.0)

    async with executor_of(says) as executor:

        async def one(problem: str) -> WorkflowRun:
            return await play(
                DIRECT, SessionExecutor.begin(executor, BUDGETS), problem=problem, budgets=BUDGETS
            )

        slow = asyncio.ensure_future(one("slow"))
        quick = await asyncio.gather(*(one("quick") for _ in range(63)))
        assert not slow.done()
        assert {run.status for run in quick} == {RunEnding.ANSWERED}
        assert (await slow).answer == "1"


async def test_the_trace_names_the_model_and_its_attempts() -> None:
    replies = iter([Said(""), Said("Answer: 7")])
    async with executor_of(lambda _: next(replies)) as executor:
        run = await play(DIRECT, SessionExecutor.begin(executor, BUDGETS), budgets=BUDGETS)
    (model,) = run.trace.children[0].children
    assert (model.model, model.reply) == ("m0", "Answer: 7")
    assert "2 attempts" in model.note


async def test_every_answered_request_is_on_the_bill_of_a_failed_run() -> None:
    async with executor_of(
        lambda _: Said(""), lambda _: Said("Answer: 7"), attempts=3, price=1e6
    ) as executor:
        run = await play(DIRECT, SessionExecutor.begin(executor, BUDGETS), budgets=BUDGETS)
    assert run.status is RunEnding.FAILED
    assert run.fallback is not None
    assert run.cost.money == pytest.approx(4 * 15), "three empty replies and the fallback's"
    assert run.cost.calls == 1


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_calls": 1}, "1 calls is spent"),
        ({"max_tokens": 100}, "100 tokens is spent"),
        ({"timeout_s": 0.02}, "0.02 s is spent"),
    ],
)
async def test_the_budget_of_the_executor_s_file_holds_for_workflows(
    limits: dict[str, float], said: str
) -> None:
    async with executor_of(lambda _: Said("Answer: 42", delay_s=0.1), budget=limits) as executor:
        (run,) = await runs_of(executor, 1)
    assert run.failure is not None
    assert run.failure.failure_class is FailureClass.BUDGET
    assert said in run.failure.message
    assert run.answer is None


async def test_the_budgets_of_a_task_hold_if_they_are_smaller() -> None:
    budgets = RunBudgets(calls=1)
    async with executor_of(lambda _: Said("Answer: 42"), budget={"max_calls": 9}) as executor:
        run = await play(TWO, SessionExecutor.begin(executor, budgets), budgets=budgets)
    assert run.fault is not None
    assert "the budget of 1 calls" in run.fault.message


@pytest.mark.parametrize(("prompt", "reply"), [(1, 40_000), (10_000, 1)])
async def test_fewer_tokens_than_a_text_can_have_are_not_believed(prompt: int, reply: int) -> None:
    said = Said("word " * 8000 + "\nAnswer: 42", prompt_tokens=prompt, completion_tokens=reply)
    async with executor_of(lambda _: said) as executor:
        budgets = RunBudgets(tokens=200_000)
        run = await play(DIRECT, SessionExecutor.begin(executor, budgets), budgets=budgets)
    (model,) = run.trace.children[0].children
    assert "the tokens are an estimate" in model.note
    assert run.cost.reply_tokens > 10_000
    assert run.cost.prompt_tokens > 10
