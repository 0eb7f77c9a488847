"""Sandbox over HTTP."""

from pydantic import TypeAdapter

from assay_shared.clients.http import ServiceClient
from assay_shared.types import ExecutionRequest, ExecutionResult, TestReport, TestRequest

_RESULT = TypeAdapter(ExecutionResult)
_REPORT = TypeAdapter(TestReport)


class SandboxClient(ServiceClient):
    """Runs untrusted programs."""

    service = "sandbox"

    async def execute(self, request: ExecutionRequest) -> ExecutionResult:
        return await self._call("POST", "/v1/execute", request, _RESULT)

    async def test(self, request: TestRequest) -> TestReport:
        return await self._call("POST", "/v1/test", request, _REPORT)
