"""A rollout worker's work on one group: generate, score, store once. No torch here."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from assay_shared.context import log_fields
from assay_shared.errors import AssayError, to_failure
from assay_shared.interfaces import Generator, Rewarder
from assay_shared.types import (
    Failure,
    GenerateRequest,
    Group,
    GroupRequest,
    Message,
    PromptFormat,
    ScoredGroup,
    ScoreRequest,
)
from assay_trainer.store import LEASE_S, GroupStore


async def take(
    request: GroupRequest,
    store: GroupStore,
    generator: Generator,
    rewarder: Rewarder,
    worker: str,
) -> bool:
    """Play a group unless it is stored or being played; whether this call stored it.

    A queue may deliver twice, and a trainer may send again: the key makes both harmless.
    """
    key = request.key
    if not await asyncio.to_thread(store.lease, key, worker):
        return False
    with log_fields(run=request.run, group=key):
        async with _renewed(store, key):
            # Looked up under the lease: whoever held it before has stored by now what it had.
            if await asyncio.to_thread(store.has, key):
                return False
            scored = await play(request, generator, rewarder, worker)
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


async def play(
    request: GroupRequest, generator: Generator, rewarder: Rewarder, worker: str
) -> ScoredGroup:
    """The group with its rewards, or with the failure that left it without any."""
    empty = Group(key=request.key, task=request.task, completions=())
    started = time.monotonic()
    try:
        group = await _generate(request, generator)
    except AssayError as error:
        return _failed(empty, to_failure(error, "inference"), worker)
    generated = time.monotonic()
    answers = tuple(completion.text for completion in group.completions)
    try:
        response = await rewarder.score(ScoreRequest(task=request.task, answers=answers))
    except AssayError as error:
        return _failed(group, to_failure(error, "reward"), worker)
    return ScoredGroup(
        group=group,
        rewards=response.rewards,
        scorer=response.scorer,
        worker=worker,
        generate_time_s=generated - started,
        score_time_s=time.monotonic() - generated,
    )


async def _generate(request: GroupRequest, generator: Generator) -> Group:
    task = request.task
    if task.prompt_format is PromptFormat.RAW:
        prompt = GenerateRequest(prompt=task.prompt, sampling=request.sampling)
    else:
        turn = Message(role="user", content=task.prompt)
        prompt = GenerateRequest(messages=(turn,), sampling=request.sampling)
    response = await generator.generate(prompt)
    return Group(
        key=request.key,
        task=task,
        prompt_token_ids=response.prompt_token_ids,
        completions=response.completions,
    )


def _failed(group: Group, failure: Failure, worker: str) -> ScoredGroup:
    return ScoredGroup(group=group, failure=failure, worker=worker)
