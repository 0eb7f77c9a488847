"""Client of the reward service: Rewarder and Environment over HTTP."""

from collections.abc import AsyncIterator

from pydantic import TypeAdapter

from assay_shared.clients.http import ServiceClient
from assay_shared.errors import InternalFault, InvalidInput
from assay_shared.telemetry.context import new_request_id
from assay_shared.types import (
    EnvironmentInfo,
    PartialReward,
    RubricInfo,
    ScoreBatch,
    ScoreBatchResponse,
    ScoreRequest,
    ScoreResponse,
    StepRequest,
    StepResponse,
)

_RESPONSE = TypeAdapter(ScoreResponse)
_PART: TypeAdapter[PartialReward | ScoreResponse] = TypeAdapter(PartialReward | ScoreResponse)
_BATCH = TypeAdapter(ScoreBatchResponse)
_RUBRICS = TypeAdapter(list[RubricInfo])
_STEP = TypeAdapter(StepResponse)
_ENVIRONMENTS = TypeAdapter(list[EnvironmentInfo])


class RewardClient(ServiceClient):
    """Client of the reward service: scores groups and plays episodes."""

    service = "reward"

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        return await self._call("POST", "/v1/score", request, _RESPONSE)

    async def score_batch(self, batch: ScoreBatch) -> ScoreBatchResponse:
        return await self._call("POST", "/v1/score/batch", batch, _BATCH)

    async def score_stream(
        self, request: ScoreRequest
    ) -> AsyncIterator[PartialReward | ScoreResponse]:
        """Yield each reward as soon as it is known, then the whole response."""
        path = "/v1/score/stream"
        async with self._stream("POST", path, request, new_request_id()) as content:
            try:
                async for line in content:
                    yield _PART.validate_json(line)
            except ValueError as error:  # no part, or a line longer than aiohttp's limit
                raise InternalFault(f"POST {path}: {error}", service=self.service) from error

    async def rubrics(self) -> list[RubricInfo]:
        return await self._call("GET", "/v1/rubrics", None, _RUBRICS)

    async def step(self, request: StepRequest) -> StepResponse:
        """Return the answer of the task's environment to the last turn.

        Raises:
            InvalidInput: the task has no environment.
        """
        played = request.task.environment
        if played is None:
            raise InvalidInput(
                f"task {request.task.id} is not played anywhere", field="task.environment"
            )
        return await self._call("POST", f"/v1/environments/{played.name}/step", request, _STEP)

    async def environments(self) -> list[EnvironmentInfo]:
        return await self._call("GET", "/v1/environments", None, _ENVIRONMENTS)
