"""Scores many groups with the reward service: in batches, with retries of failed groups."""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Protocol

from assay_shared.errors import InvalidInput
from assay_shared.types import (
    AnswerText,
    GroupFailed,
    Reward,
    ScoreBatch,
    ScoreBatchResponse,
    Scored,
    ScoreRequest,
    ScoreResponse,
    Task,
    Unscored,
)

_FIRST_WAIT_S, _MAX_WAIT_S = 0.5, 10.0
_MAX_BATCH_BYTES = 8 * 2**20
_MAX_GROUP = 256

GroupScores = ScoreResponse | GroupFailed


class BatchRewarder(Protocol):
    """A scorer of several groups with one request."""

    async def score_batch(self, batch: ScoreBatch) -> ScoreBatchResponse: ...


async def score_groups(
    rewarder: BatchRewarder,
    requests: Sequence[ScoreRequest],
    *,
    give_up_after_s: float,
    batch_size: int = 1024,
    on_scored: Callable[[int], None] = lambda _: None,
) -> list[GroupScores]:
    """Score `requests` and return a response for each, in order.

    A group with a retryable failure is requested again, as a whole, until `give_up_after_s` after
    the first pass over all groups; the response with the most rewards counts. Rewards of two
    responses are never combined: the judge may have changed between them. `on_scored` gets the
    number of newly final groups.

    Raises:
        InfrastructureError: the service stays unreachable through all retries of the client.
    """
    # The key is unique to this call: the service does not score a group again if its response is
    # lost on the way back, and never returns the scores of another call.
    call = uuid.uuid4().hex
    keyed = [
        request.model_copy(update={"key": f"{call}/{index}"})
        for index, request in enumerate(requests)
    ]
    best: dict[int, GroupScores] = {}
    deadline, wait_s = None, _FIRST_WAIT_S
    wanted = list(range(len(keyed)))
    while True:
        for batch in _batches(keyed, wanted, batch_size):
            response = await rewarder.score_batch(
                ScoreBatch(requests=tuple(keyed[index] for index in batch))
            )
            for index, group in zip(batch, response.responses, strict=True):
                best[index] = _better(best.get(index), group)
            on_scored(sum(not _can_improve(best[index]) for index in batch))
        wanted = [index for index in wanted if _can_improve(best[index])]
        deadline = deadline or time.monotonic() + give_up_after_s
        if not wanted or time.monotonic() + wait_s > deadline:
            on_scored(len(wanted))
            return [best[index] for index in range(len(keyed))]
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, _MAX_WAIT_S)


async def score_answers(
    rewarder: BatchRewarder, answers: Sequence[tuple[Task, AnswerText]], *, give_up_after_s: float
) -> list[Reward]:
    """Score `answers` and return a reward for each, in order; a task's answers form a group.

    Raises:
        InvalidInput: a task can never be scored.
        InfrastructureError: see `score_groups`.
    """
    groups: dict[str, list[int]] = {}
    for index, (task, _) in enumerate(answers):
        groups.setdefault(task.model_dump_json(), []).append(index)
    pieces = [
        group[start : start + _MAX_GROUP]
        for group in groups.values()
        for start in range(0, len(group), _MAX_GROUP)
    ]
    requests = [
        ScoreRequest(task=answers[piece[0]][0], answers=tuple(answers[at][1] for at in piece))
        for piece in pieces
    ]
    responses = await score_groups(rewarder, requests, give_up_after_s=give_up_after_s)
    rewards: dict[int, Reward] = {}
    for piece, response in zip(pieces, responses, strict=True):
        rewards.update(zip(piece, _rewards(response, len(piece)), strict=True))
    return [rewards[index] for index in range(len(answers))]


def _rewards(group: GroupScores, num_answers: int) -> Sequence[Reward]:
    if not isinstance(group, GroupFailed):
        return group.rewards
    if not group.failure.retryable:
        raise InvalidInput(group.failure.message)
    return [Unscored(failure=group.failure)] * num_answers


def _batches(requests: Sequence[ScoreRequest], wanted: list[int], size: int) -> list[list[int]]:
    """Split the wanted indices into batches of at most `size` groups and `_MAX_BATCH_BYTES`."""
    batches: list[list[int]] = []
    num_bytes = 0
    for index in wanted:
        weight = len(requests[index].model_dump_json())
        if not batches or len(batches[-1]) == size or num_bytes + weight > _MAX_BATCH_BYTES:
            batches.append([])
            num_bytes = 0
        batches[-1].append(index)
        num_bytes += weight
    return batches


def _can_improve(group: GroupScores) -> bool:
    if isinstance(group, GroupFailed):
        return group.failure.retryable
    return any(not isinstance(one, Scored) and one.failure.retryable for one in group.rewards)


def _better(old: GroupScores | None, new: GroupScores) -> GroupScores:
    return new if old is None or _num_scored(new) >= _num_scored(old) else old


def _num_scored(group: GroupScores) -> int:
    if isinstance(group, GroupFailed):
        return 0
    return sum(isinstance(reward, Scored) for reward in group.rewards)
