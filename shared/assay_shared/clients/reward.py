"""Rewarder over HTTP."""

from pydantic import TypeAdapter

from assay_shared.clients.http import ServiceClient
from assay_shared.types import RubricInfo, ScoreRequest, ScoreResponse

_RESPONSE = TypeAdapter(ScoreResponse)
_RUBRICS = TypeAdapter(list[RubricInfo])


class RewardClient(ServiceClient):
    """Scores groups."""

    service = "reward"

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        return await self._call("POST", "/v1/score", request, _RESPONSE)

    async def rubrics(self) -> list[RubricInfo]:
        return await self._call("GET", "/v1/rubrics", None, _RUBRICS)
