"""Client of the judge service: Judge over HTTP."""

from pydantic import TypeAdapter

from assay_shared.clients.http import ServiceClient
from assay_shared.types import JudgeRequest, JudgeResponse

_RESPONSE = TypeAdapter(JudgeResponse)


class JudgeClient(ServiceClient):
    """Client of the judge: asks for a verdict on an answer."""

    service = "judge"

    async def judge(self, request: JudgeRequest) -> JudgeResponse:
        return await self._call("POST", "/v1/judge", request, _RESPONSE)
