"""The worker's work with fake neighbours and a real Valkey."""

import asyncio

import pytest

from assay_shared.errors import InvalidInput, Overloaded, Unreachable
from assay_shared.telemetry.context import WorkPurpose, purpose
from assay_shared.types import (
    Answer,
    ComponentReport,
    Cost,
    FailureClass,
    GenerateRequest,
    GenerateResponse,
    GroupRequest,
    Message,
    Priority,
    PromptFormat,
    SamplingParams,
    Scored,
    ScoreRequest,
    ScoreResponse,
    Unscored,
)
from assay_trainer.rollouts.store import GroupStore
from assay_trainer.rollouts.worker import run_group, run_once
from tests.support.fakes import FakeGenerator, FakeRewarder, make_task
from tests.support.valkey import TestValkey


def request(key: str = "k", **task: object) -> GroupRequest:
    return GroupRequest(
        key=key, run="run", task=make_task("t", **task), sampling=SamplingParams(n=3, seed=1)
    )


async def test_a_group_is_generated_scored_and_timed() -> None:
    generator, rewarder = FakeGenerator(["a", "b"]), FakeRewarder({"a": 1.0, "b": None})
    scored = await run_group(request(), generator, rewarder, "w1")
    assert [c.text for c in scored.group.rollouts] == ["a", "b", "a"]
    assert [isinstance(r, Scored) for r in scored.rewards] == [True, False, True]
    assert generator.requests[0].messages == (Message(role="user", content="question t"),)
    assert rewarder.requests[0].answers == tuple(
        Answer(text=text, num_tokens=2, truncated=False) for text in ("a", "b", "a")
    )
    assert scored.worker == "w1"


async def test_the_costs_of_a_group_are_kept() -> None:
    costs = (ComponentReport(name="judge", time_s=2.0, cost=Cost(judge_tokens=90, money=0.5)),)

    class Charging(FakeRewarder):
        async def score(self, request: ScoreRequest) -> ScoreResponse:
            response = await super().score(request)
            return response.model_copy(update={"components": costs})

    scored = await run_group(request(), FakeGenerator(["a"]), Charging({"a": 1.0}), "w1")
    assert scored.costs == costs


@pytest.mark.parametrize("priority", [Priority.TRAINING, Priority.EVALUATION])
async def test_inference_is_told_what_it_is_asked_for(priority: Priority) -> None:
    told = []

    class Listening(FakeGenerator):
        async def generate(self, request: GenerateRequest) -> GenerateResponse:
            told.append(purpose())
            return await super().generate(request)

    asked = request().model_copy(update={"priority": priority})
    await run_group(asked, Listening(["a"]), FakeRewarder({}), "w")
    assert told == [WorkPurpose(priority, "run")]
    assert purpose() == WorkPurpose()


async def test_a_raw_prompt_gets_no_template() -> None:
    generator = FakeGenerator(["a"])
    await run_group(request(prompt_format=PromptFormat.RAW), generator, FakeRewarder({}), "w")
    assert generator.requests[0].prompt == "question t"
    assert generator.requests[0].messages is None


@pytest.mark.promise("a failure is never a score")
async def test_neighbours_that_fail_leave_a_typed_failure_and_no_reward() -> None:
    generator, rewarder = FakeGenerator(["a"]), FakeRewarder({})
    rewarder.error = Overloaded("full", service="sandbox")
    scored = await run_group(request(), generator, rewarder, "w")
    assert scored.rewards == ()
    assert scored.failure is not None
    assert (scored.failure.service, scored.failure.retryable) == ("sandbox", True)
    generator.error = InvalidInput("too long")
    scored = await run_group(request(), generator, rewarder, "w")
    assert scored.failure is not None
    assert not scored.failure.retryable
    assert scored.group.rollouts == ()


async def test_a_key_is_stored_once_however_often_it_is_delivered(valkey: TestValkey) -> None:
    store = GroupStore(valkey.url)
    generator, rewarder = FakeGenerator(["a"]), FakeRewarder({"a": 1.0})
    stored = [await run_once(request(), store, generator, rewarder, f"w{i}") for i in range(3)]
    assert stored == [True, False, False]
    assert len(rewarder.requests) == 1
    assert store.fetch(["k"])["k"].worker == "w0"


@pytest.mark.promise("each group counts once, whatever is killed")
async def test_two_workers_at_once_do_the_work_once(valkey: TestValkey) -> None:
    store = GroupStore(valkey.url)
    generator, rewarder = FakeGenerator(["a"]), FakeRewarder({"a": 1.0})
    work = (run_once(request(), store, generator, rewarder, f"w{i}") for i in range(8))
    assert sorted(await asyncio.gather(*work)) == [False] * 7 + [True]
    assert len(rewarder.requests) == 1


async def test_a_result_that_came_later_never_replaces_the_first(valkey: TestValkey) -> None:
    store = GroupStore(valkey.url)
    first = await run_group(request(), FakeGenerator(["a"]), FakeRewarder({"a": 1.0}), "first")
    second = await run_group(request(), FakeGenerator(["b"]), FakeRewarder({}), "second")
    assert (store.put_once(first), store.put_once(second)) == (True, False)
    assert store.fetch(["k"])["k"] == first


async def test_the_lease_is_given_back_even_when_the_work_breaks(valkey: TestValkey) -> None:
    store = GroupStore(valkey.url)

    class Broken(FakeGenerator):
        async def generate(self, request: GenerateRequest) -> GenerateResponse:
            assert store.leased(["k"]) == {"k"}
            raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        await run_once(request(), store, Broken([]), FakeRewarder({}), "w")
    assert store.leased(["k"]) == set()
    assert not store.has("k")


async def test_a_failure_is_stored_like_a_result(valkey: TestValkey) -> None:
    store = GroupStore(valkey.url)
    generator = FakeGenerator([])
    generator.error = Unreachable("refused", service="inference")
    assert await run_once(request(), store, generator, FakeRewarder({}), "w")
    failure = store.fetch(["k"])["k"].failure
    assert failure is not None
    assert failure.failure_class is FailureClass.NETWORK


def test_unscored_is_not_zero() -> None:
    assert "value" not in Unscored.model_fields
