"""Many groups through the reward service, in batches."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from assay_shared.errors import InfrastructureError, to_failure
from assay_shared.together import together
from assay_shared.types import (
    GroupFailed,
    RubricInfo,
    ScoreBatch,
    ScoreBatchResponse,
    ScoreRequest,
    ScoreResponse,
)

_BATCH_GROUPS = 16
_BATCHES_AT_ONCE = 4


class BatchRewarder(Protocol):
    """What is asked of the reward service here."""

    async def score_batch(self, batch: ScoreBatch) -> ScoreBatchResponse: ...

    async def rubrics(self) -> list[RubricInfo]: ...


async def score_groups(
    requests: Sequence[ScoreRequest],
    rewarder: BatchRewarder,
    on_scored: Callable[[int], None] = lambda num_groups: None,
) -> list[ScoreResponse | GroupFailed]:
    """One response per group, in order; a group that could not be asked for has its failure."""
    slots = asyncio.Semaphore(_BATCHES_AT_ONCE)

    async def score(batch: Sequence[ScoreRequest]) -> Sequence[ScoreResponse | GroupFailed]:
        async with slots:
            try:
                found = await rewarder.score_batch(ScoreBatch(requests=tuple(batch)))
                responses: Sequence[ScoreResponse | GroupFailed] = found.responses
            except InfrastructureError as error:
                responses = [GroupFailed(failure=to_failure(error, "reward"))] * len(batch)
        on_scored(len(batch))
        return responses

    starts = range(0, len(requests), _BATCH_GROUPS)
    batches = await together(score(requests[at : at + _BATCH_GROUPS]) for at in starts)
    return [response for batch in batches for response in batch]


def estimated_tokens(text: str) -> int:
    """About four bytes a token: near enough for rubrics that punish thousands too many."""
    return len(text.encode()) // 4 + 1
