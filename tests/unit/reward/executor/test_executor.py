"""Operator calls against real servers: replies, failures, fallback of whole workflows, fairness."""

import asyncio
import json
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from assay_reward.executor.config import ExecutorConfig
from assay_reward.executor.executor import Executor, ExecutorBusy, ExecutorRefused, make_executor
from assay_reward.executor.requests import ExecutorReply, ExecutorRequest
from assay_reward.executor.session import WorkflowFallback, WorkflowSession
from assay_shared.errors import AssayError, BudgetExceeded, ConfigError, ExecutorFault, to_failure
from assay_shared.runtime.gather import gather
from assay_shared.types import FailureClass, Message
from tests.support.chat_models import ChatModel, Said
from tests.support.valkey import TestValkey

REPLY = Said("four")


def ask(text: str, max_tokens: int = 64, **fields: Any) -> ExecutorRequest:
    message = Message(role="user", content=text)
    return ExecutorRequest(messages=(message,), max_tokens=max_tokens, **fields)


@asynccontextmanager
async def executor_of(*models: ChatModel, **fields: Any) -> AsyncIterator[Executor]:
    """Serve the models and open an executor on them; fields of a model apply to all of them."""
    own = {name: fields.pop(name) for name in [*fields] if name in ExecutorConfig.model_fields}
    async with AsyncExitStack() as stack:
        for model in models:
            await stack.enter_async_context(model.served())
        configs = [
            {"name": name, "base_url": model.url, "model": "m", "cooldown_s": 0.2} | fields
            for name, model in zip(("first", "second"), models, strict=False)
        ]
        config = ExecutorConfig.model_validate({"models": configs} | own)
        executor = make_executor(config, None, REGISTRY.set_new())
        yield await stack.enter_async_context(executor.opened())


class _Registry:
    """The registry of the latest executor."""

    def set_new(self) -> CollectorRegistry:
        self.registry = CollectorRegistry()
        return self.registry

    def of(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"assay_executor_{name}_total", labels) or 0.0


REGISTRY = _Registry()


def text_of(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


# Replies


async def test_a_reply_has_its_text_tokens_cost_and_model() -> None:
    model = ChatModel(lambda body: Said("4", prompt_tokens=1000, completion_tokens=50))
    price = {"input_per_million": 1, "output_per_million": 2}
    async with executor_of(model, price=price) as executor:
        session = executor.start(caller="c", run="r")
        request = ask("2+2?", temperature=0.3, seed=7, stop=("\n",))
        reply = await executor.complete(request, session)
    assert (reply.text, reply.model, reply.attempts) == ("4", "first", 1)
    assert (reply.tokens_in, reply.tokens_out, reply.is_estimated) == (1000, 50, False)
    assert reply.cost == pytest.approx(0.0011)
    assert reply.seconds > 0
    sent = model.bodies[0]
    assert (sent["max_tokens"], sent["temperature"], sent["seed"]) == (64, 0.3, 7)
    assert sent["stop"] == ["\n"]
    assert sent["messages"] == [{"role": "user", "content": "2+2?"}]
    assert session.spending.cost == reply.cost
    assert REGISTRY.of("tokens", provider="first", kind="prompt") == 1000


BAD = [
    (Said(""), "empty"),
    (Said("", reasoning="hm"), "reasoning_only"),
    (Said("<think>never closed"), "reasoning_only"),
    (Said("half of", "length"), "truncated"),
    (Said("no", "content_filter"), "declined"),
    (Said("call", "tool_calls"), "odd"),
]


@pytest.mark.parametrize(("bad", "kind"), BAD, ids=[kind for _, kind in BAD])
async def test_an_incomplete_reply_escalates_and_is_never_asked_for_again(
    bad: Said, kind: str
) -> None:
    replies = iter([bad, bad, bad, REPLY])
    model = ChatModel(lambda body: next(replies))
    async with executor_of(model, max_tokens_limit=128, reasoning_effort="high") as executor:
        session = executor.start()
        reply = await executor.complete(ask("2+2?"), session)
    assert (reply.text, reply.attempts) == ("four", 4)
    assert len({json.dumps(body, sort_keys=True) for body in model.bodies}) == 4
    if kind in ("empty", "reasoning_only", "truncated"):
        assert [body["max_tokens"] for body in model.bodies] == [64, 128, 128, 128]
        assert [body["reasoning_effort"] for body in model.bodies[:3]] == ["high", "medium", "low"]
    assert len({body["seed"] for body in model.bodies}) == 4
    assert REGISTRY.of("replies", model="first", kind=kind) == 3
    assert REGISTRY.of("replies", model="first", kind="complete") == 1
    assert session.spending.tokens_in == 40  # what failed is paid for as well


@pytest.mark.promise("a failure is never a score")
async def test_with_13_percent_empty_replies_nothing_is_lost_and_all_is_counted() -> None:
    """100 workflows of 5 calls, one try a model: about half of them lose the first model."""
    chance, num_empty = random.Random(13), Counter[str]()

    def sometimes(name: str, share: float) -> ChatModel:
        def reply(body: dict[str, Any]) -> Said:
            if chance.random() < share:
                num_empty[name] += 1
                return Said("")
            return Said(f"{name}:{text_of(body)}")

        return ChatModel(reply)

    async def workflow(session: WorkflowSession) -> list[ExecutorReply]:
        first = [await executor.complete(ask(f"{session.run} {i}"), session) for i in range(2)]
        calls = [executor.complete(ask(f"{session.run} {i}"), session) for i in range(2, 5)]
        return [*first, *await gather(calls)]

    async def run(number: int) -> tuple[int, list[ExecutorReply]] | AssayError:
        try:
            done = await executor.run(executor.start(run=str(number)), workflow)
        except AssayError as error:
            return error
        return done.session.model_index, done.result

    models = sometimes("first", 0.13), sometimes("second", 0.13)
    async with executor_of(*models, attempts=1, open_after=10**6) as executor:
        ended = await asyncio.gather(*(run(number) for number in range(100)))
    by_model: Counter[str] = Counter()
    for number, end in enumerate(ended):
        if isinstance(end, AssayError):
            assert isinstance(end, ExecutorFault)
            failure = to_failure(end, "reward")
            assert (failure.failure_class, failure.retryable) == (FailureClass.EXECUTOR, True)
            by_model["none"] += 1
            continue
        index, replies = end
        name = ("first", "second")[index]
        # No workflow mixes models, and each reply belongs to its question.
        assert [one.text for one in replies] == [f"{name}:{number} {i}" for i in range(5)]
        assert {one.model for one in replies} == {name}
        by_model[name] += 1
    assert by_model.total() == 100
    assert min(by_model["first"], by_model["second"], by_model["none"]) > 5
    for name, model in zip(("first", "second"), models, strict=True):
        empty = REGISTRY.of("replies", model=name, kind="empty")
        complete = REGISTRY.of("replies", model=name, kind="complete")
        assert 0 < empty <= num_empty[name]  # a parallel branch may be cancelled before its reply
        assert 0.07 < empty / (empty + complete) < 0.19
        assert empty + complete <= len(model.bodies)
    assert REGISTRY.of("fallbacks", model="first") == by_model["second"] + by_model["none"]
    assert REGISTRY.of("fallbacks", model="second") == 0
    assert REGISTRY.of("calls", model="second", outcome="ExecutorFault") >= by_model["none"]


async def test_with_retries_13_percent_empty_replies_end_no_workflow() -> None:
    chance = random.Random(31)
    model = ChatModel(lambda body: Said("") if chance.random() < 0.13 else Said(text_of(body)))
    async with executor_of(model, attempts=8, open_after=10**6) as executor:

        async def call(number: int) -> ExecutorReply:
            return await executor.complete(ask(str(number)), executor.start())

        replies = await asyncio.gather(*(call(number) for number in range(300)))
    assert [reply.text for reply in replies] == [str(number) for number in range(300)]
    num_sent = sum(reply.attempts for reply in replies)
    assert num_sent == len(model.bodies)
    empty = REGISTRY.of("replies", model="first", kind="empty")
    assert empty == num_sent - 300
    assert REGISTRY.of("calls", model="first", outcome="answered") == 300


# Fallback


async def three_steps(executor: Executor, session: WorkflowSession) -> list[ExecutorReply]:
    return [await executor.complete(ask(f"step {i}"), session) for i in range(3)]


async def test_a_workflow_starts_again_from_its_beginning_on_the_next_model() -> None:
    first = ChatModel(lambda body: Said("") if text_of(body) == "step 2" else Said("a"))
    second = ChatModel(lambda body: Said("b"))
    async with executor_of(first, second, attempts=2) as executor:
        done = await executor.run(executor.start(), lambda one: three_steps(executor, one))
    assert [reply.text for reply in done.result] == ["b"] * 3
    assert [text_of(body) for body in second.bodies] == ["step 0", "step 1", "step 2"]
    assert done.session.model_index == 1
    assert done.session.is_fallback
    assert done.session.failures[0].startswith("first gave up: 64 tokens")
    spending = done.session.spending
    assert (spending.num_calls, spending.num_requests) == (6, 4 + 3)
    assert spending.tokens_in == 70


async def test_a_branch_on_a_model_that_gave_up_gets_no_reply() -> None:
    slow = asyncio.Event()

    async def reply(body: dict[str, Any]) -> Said:
        if text_of(body) == "bad":
            return Said("")
        await slow.wait()
        return Said("late")

    first, second = ChatModel(reply), ChatModel(lambda body: Said("b"))
    async with executor_of(first, second, attempts=1) as executor:
        session = executor.start()
        late = asyncio.create_task(executor.complete(ask("good"), session))
        with pytest.raises(WorkflowFallback, match="first gave up: .*an empty reply") as raised:
            await executor.complete(ask("bad"), session)
        assert not isinstance(raised.value, AssayError)
        slow.set()
        with pytest.raises(WorkflowFallback):
            await late
        with pytest.raises(WorkflowFallback):
            await executor.complete(ask("another"), session)
        assert len(first.bodies) == 2
        again = session.restarted()
        assert (await executor.complete(ask("good"), again)).text == "b"
        assert REGISTRY.of("fallbacks", model="first") == 1


async def test_a_workflow_that_swallows_the_failure_of_a_model_still_starts_again() -> None:
    async def careless(session: WorkflowSession) -> str:
        found = "made up"
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(executor.complete(ask("q"), session))
            found = task.result().text
        except* (WorkflowFallback, AssayError):
            pass
        return found

    async with executor_of(ChatModel(lambda body: Said("")), ChatModel(lambda body: REPLY)) as one:
        executor = one
        done = await executor.run(executor.start(), careless)
    assert (done.result, done.session.model_index) == ("four", 1)
    async with executor_of(ChatModel(lambda body: Said("")), attempts=1) as executor:
        with pytest.raises(ExecutorFault, match="first gave up"):
            await executor.run(executor.start(), careless)


async def test_with_every_model_down_the_failure_says_why() -> None:
    models = [ChatModel(lambda body: Said(status=500)), ChatModel(lambda body: Said(status=400))]
    async with executor_of(*models, attempts=2) as executor:
        with pytest.raises(ExecutorRefused, match=r"first gave up: .*HTTP 500.*second gave up"):
            await executor.run(executor.start(), lambda one: three_steps(executor, one))
    async with executor_of(models[0], attempts=2) as executor:
        with pytest.raises(ExecutorFault, match="HTTP 500") as raised:
            await executor.complete(ask("q"), executor.start())
    failure = to_failure(raised.value, "reward")
    assert (failure.failure_class, failure.service) == (FailureClass.EXECUTOR, "executor")
    assert (failure.retryable, failure.attempts) == (True, 2)


async def test_a_model_that_failed_repeatedly_is_left_alone() -> None:
    first, second = ChatModel(lambda body: Said(status=500)), ChatModel(lambda body: REPLY)
    async with executor_of(first, second, attempts=2, open_after=2, cooldown_s=60) as executor:
        for _ in range(3):
            done = await executor.run(executor.start(), lambda one: three_steps(executor, one))
            assert done.session.is_fallback
        assert executor.open_circuits == ["first"]
    assert len(first.bodies) == 2


# Other workflows


async def test_a_slow_reply_delays_no_other_workflow() -> None:
    """20 workflows of 5 calls end while 4 branches of another one wait for their replies."""
    released = asyncio.Event()

    async def reply(body: dict[str, Any]) -> Said:
        if text_of(body) == "slow":
            await released.wait()
        return REPLY

    model = ChatModel(reply)
    async with executor_of(model, max_running=8) as executor:

        async def workflow(session: WorkflowSession) -> None:
            for number in range(5):
                await executor.complete(ask(str(number)), session)

        slow = executor.start()
        calls = [asyncio.create_task(executor.complete(ask("slow"), slow)) for _ in range(4)]
        await model.running(4)
        async with asyncio.timeout(20):
            await asyncio.gather(*(workflow(executor.start()) for _ in range(20)))
        assert not any(call.done() for call in calls)
        released.set()
        await asyncio.gather(*calls)
    assert len(model.bodies) == 104
    assert model.max_running <= 8


async def test_branches_of_a_big_workflow_wait_behind_a_small_one() -> None:
    model = ChatModel(lambda body: REPLY._replace(delay_s=0.01))
    async with executor_of(model, max_running=2, max_waiting=100) as executor:
        big, small = executor.start(), executor.start()
        calls = [asyncio.create_task(executor.complete(ask("big"), big)) for _ in range(50)]
        await model.running(2)
        num_before = len(model.bodies)
        await executor.complete(ask("small"), small)
        place = [text_of(body) for body in model.bodies].index("small")
        assert place - num_before <= 2
        await asyncio.gather(*calls)
    assert model.max_running == 2


async def test_too_many_waiting_requests_are_a_failure_of_overload() -> None:
    model = ChatModel(lambda body: REPLY._replace(delay_s=0.2))
    async with executor_of(model, ChatModel(lambda body: REPLY), max_running=1, max_waiting=0) as e:
        held = asyncio.create_task(e.complete(ask("q"), e.start()))
        await model.running(1)
        with pytest.raises(ExecutorBusy) as raised:
            await e.run(e.start(), lambda one: three_steps(e, one))
        await held
    failure = to_failure(raised.value, "executor")
    assert (failure.failure_class, failure.retryable) == (FailureClass.OVERLOAD, True)


# Ledger and cache


async def test_equal_requests_share_a_reply_if_the_cache_is_on() -> None:
    model = ChatModel(lambda body: REPLY)
    price = {"input_per_million": 1000}
    async with executor_of(model, cache=True, price=price) as executor:
        session = executor.start()
        new = await executor.complete(ask("q"), session)
        kept = await executor.complete(ask("q"), session)
        others = [executor.complete(ask("q", seed=2), executor.start()) for _ in range(5)]
        together = await asyncio.gather(*others)
    assert len(model.bodies) == 2
    assert (kept.text, kept.tokens_in, kept.tokens_out) == ("four", new.tokens_in, new.tokens_out)
    assert (new.attempts, kept.attempts, new.cost, kept.cost) == (1, 0, 0.01, 0.0)
    assert sorted(one.attempts for one in together) == [0, 0, 0, 0, 1]
    # A workflow's tokens are the same, whoever asked first; its money is what was spent.
    assert (session.spending.tokens, session.spending.cost) == (30, 0.01)
    async with executor_of(model) as executor:
        await asyncio.gather(*(executor.complete(ask("q"), executor.start()) for _ in range(5)))
    assert len(model.bodies) == 7


async def test_the_ceiling_of_a_run_ends_its_workflows() -> None:
    model = ChatModel(lambda body: REPLY)
    price = {"input_per_million": 1000}
    models = (model, ChatModel(lambda body: REPLY))
    async with executor_of(*models, ceiling=0.02, price=price) as executor:
        for _ in range(2):
            await executor.complete(ask("q"), executor.start(caller="c", run="r"))
        session = executor.start(caller="c", run="r")
        with pytest.raises(BudgetExceeded, match="its ceiling is 0.02") as raised:
            await executor.run(session, lambda one: three_steps(executor, one))
        assert to_failure(raised.value, "executor").failure_class is FailureClass.BUDGET
        await executor.complete(ask("q"), executor.start(caller="c", run="other"))
    assert len(model.bodies) == 3


async def test_replicas_share_costs_and_the_cache(valkey: TestValkey) -> None:
    model = ChatModel(lambda body: REPLY)
    run = uuid.uuid4().hex
    async with model.served(), AsyncExitStack() as stack:
        first = {
            "name": "first",
            "base_url": model.url,
            "model": "m",
            "price": {"input_per_million": 1000},
        }
        config = ExecutorConfig.model_validate({"models": [first], "ceiling": 0.01, "cache": True})
        one, other = [
            await stack.enter_async_context(
                make_executor(config, valkey.url, CollectorRegistry()).opened()
            )
            for _ in range(2)
        ]
        await one.complete(ask(run), one.start(run=run))
        assert (await other.complete(ask(run), other.start(run=run))).attempts == 0
        with pytest.raises(BudgetExceeded, match="its ceiling is 0.01"):
            await other.complete(ask("another"), other.start(run=run))
    assert len(model.bodies) == 1


# Configuration


def test_a_configuration_names_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"name": "a", "base_url": "http://127.0.0.1:1/v1", "model": "m"}
    with pytest.raises(ValueError, match="two models are called 'a'"):
        ExecutorConfig.model_validate({"models": [one, one]})
    with pytest.raises(ValueError, match="at least 1 item"):
        ExecutorConfig.model_validate({"models": []})
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        ExecutorConfig.model_validate({"models": [one | {"temperature": 0.5}]})
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    config = ExecutorConfig.model_validate({"models": [one | {"api_key_env": "NO_SUCH_KEY"}]})
    with pytest.raises(ConfigError, match="needs the environment variable NO_SUCH_KEY"):
        make_executor(config, None, CollectorRegistry())
