"""A rollout worker's work on a group: generate, score, store once. No torch here."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from pydantic import Field

from assay_shared.errors import AssayError, to_failure
from assay_shared.interfaces import Environment, Generator, RewardService
from assay_shared.runtime.gather import gather
from assay_shared.telemetry.context import WorkPurpose, log_fields, purpose_scope
from assay_shared.telemetry.tracing import span
from assay_shared.types import (
    Answer,
    Failure,
    FinishReason,
    GenerateRequest,
    GenerateResponse,
    Group,
    GroupRequest,
    PromptFormat,
    Reward,
    Rollout,
    ScoredGroup,
    ScoreRequest,
    ScoreResponse,
    Unscored,
)
from assay_trainer.rollouts.episode import Episode
from assay_trainer.rollouts.store import LEASE_S, GroupStore


async def run_once(
    request: GroupRequest,
    store: GroupStore,
    generator: Generator,
    rewarder: RewardService,
    worker: str,
) -> bool:
    """Run a group unless it is stored or in play; return True if this call stored it.

    A queue may deliver twice, and a trainer may send again: the key makes both harmless.
    """
    key = request.key
    if not await asyncio.to_thread(store.lease, key, worker):
        return False
    with log_fields(run=request.run, group=key), span("rollout.run_group", worker=worker):
        async with _renewed(store, key):
            # Looked up under the lease: whoever held it before has stored by now what it had.
            if await asyncio.to_thread(store.has, key):
                return False
            scored = await run_group(request, generator, rewarder, worker)
            return await asyncio.to_thread(store.put_once, scored)


@asynccontextmanager
async def _renewed(store: GroupStore, key: str) -> AsyncIterator[None]:
    """Keep the lease while this process lives, and give it back at the end."""

    async def renew() -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            await asyncio.to_thread(store.renew, key)

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.to_thread(store.release, key)


class PartialResponse(GenerateResponse):
    """Samples of a source that has a request for each: some may have no answer.

    An empty completion stands in the place of a sample without an answer.
    """

    #: By the index of a sample: why it has no answer.
    lost: dict[int, Failure] = Field(default_factory=dict)


async def run_group(
    request: GroupRequest, generator: Generator, rewarder: RewardService, worker: str
) -> ScoredGroup:
    """Return the group with its rewards, or with the failure in their place."""
    empty = Group(key=request.key, task=request.task, rollouts=())
    started = time.monotonic()
    try:
        with purpose_scope(WorkPurpose(request.priority, request.run)), span("rollout.draw"):
            group, lost = await _generate(request, generator, rewarder)
    except AssayError as error:
        return _failed(empty, to_failure(error, "inference"), worker)
    generated = time.monotonic()
    try:
        with span("rollout.score", rubric=request.task.rubric):
            response = await _score(request, group, lost, rewarder)
    except AssayError as error:
        return _failed(group, to_failure(error, "reward"), worker)
    return ScoredGroup(
        group=group,
        rewards=response.rewards,
        scorer=response.scorer,
        worker=worker,
        generate_time_s=generated - started,
        score_time_s=time.monotonic() - generated,
        costs=response.components,
    )


async def _generate(
    request: GroupRequest, generator: Generator, environment: Environment
) -> tuple[Group, dict[int, Failure]]:
    """Return the rollouts, and by index the failures of lost samples and broken-off episodes."""
    task = request.task
    if task.prompt_format is PromptFormat.RAW:
        prompt = GenerateRequest(prompt=task.prompt, sampling=request.sampling)
    else:
        prompt = GenerateRequest(messages=task.messages, sampling=request.sampling)
    response = await generator.generate(prompt)
    rollouts = list(map(Rollout.of, response.completions))
    lost = dict(response.lost) if isinstance(response, PartialResponse) else {}
    if task.environment is not None:
        begun = [index for index in range(len(rollouts)) if index not in lost]
        episodes = await gather(
            Episode(task, response.prompt_token_ids, response.completions[index], index).play(
                request.sampling, generator, environment
            )
            for index in begun
        )
        for index, episode in zip(begun, episodes, strict=True):
            rollouts[index] = episode.rollout
            if episode.failure is not None:
                lost[index] = episode.failure
    group = Group(
        key=request.key,
        task=task,
        prompt_token_ids=response.prompt_token_ids,
        rollouts=tuple(rollouts),
    )
    return group, lost


async def _score(
    request: GroupRequest, group: Group, lost: dict[int, Failure], rewarder: RewardService
) -> ScoreResponse:
    """Return the rewards in the order of the rollouts; the failures of `lost` are kept."""
    whole = [index for index in range(len(group.rollouts)) if index not in lost]
    if not whole:
        return ScoreResponse(
            rewards=tuple(Unscored(failure=lost[i]) for i in sorted(lost)), scorer=""
        )
    response = await rewarder.score(
        ScoreRequest(
            task=request.task,
            answers=tuple(_answer(group.rollouts[index]) for index in whole),
            key=uuid4().hex,  # asked again after a lost reply, it is not measured again
            run=request.run,
        )
    )
    by_index: dict[int, Reward] = dict(zip(whole, response.rewards, strict=True))
    by_index |= {index: Unscored(failure=failure) for index, failure in lost.items()}
    rewards = tuple(by_index[index] for index in range(len(group.rollouts)))
    return response.model_copy(update={"rewards": rewards})


def _answer(rollout: Rollout) -> Answer:
    return Answer(
        text=rollout.answer,
        num_tokens=rollout.num_sampled,
        truncated=rollout.finish_reason is FinishReason.LENGTH,
    )


def _failed(group: Group, failure: Failure, worker: str) -> ScoredGroup:
    return ScoredGroup(group=group, failure=failure, worker=worker)
