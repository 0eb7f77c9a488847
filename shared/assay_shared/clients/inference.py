"""Generator and WeightSink over HTTP."""

from collections.abc import Mapping

from pydantic import TypeAdapter

from assay_shared.clients.http import ServiceClient
from assay_shared.context import purpose
from assay_shared.types import GenerateRequest, GenerateResponse, WeightStatus, WeightUpdate

_GENERATED = TypeAdapter(GenerateResponse)
_STATUS = TypeAdapter(WeightStatus)


class InferenceClient(ServiceClient):
    """The policy."""

    service = "inference"

    def _headers(self) -> Mapping[str, str]:
        return purpose().headers()

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        return await self._call("POST", "/v1/generate", request, _GENERATED)

    async def update_weights(self, update: WeightUpdate) -> WeightStatus:
        return await self._call("POST", "/v1/weights", update, _STATUS)

    async def weight_status(self) -> WeightStatus:
        return await self._call("GET", "/v1/weights", None, _STATUS)
