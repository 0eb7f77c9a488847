"""Client of the reward service: Rewarder and Environment over HTTP."""

from pydantic import TypeAdapter

from assay_shared.clients.http import ServiceClient
from assay_shared.errors import InvalidInput
from assay_shared.types import (
    EnvironmentInfo,
    RubricInfo,
    ScoreBatch,
    ScoreBatchResponse,
    ScoreRequest,
    ScoreResponse,
    StepRequest,
    StepResponse,
)

_RESPONSE = TypeAdapter(ScoreResponse)
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
