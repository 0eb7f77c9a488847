"""Client of the sandbox service: Sandbox over HTTP."""

from pydantic import TypeAdapter

from assay_shared.clients.http import ServiceClient
from assay_shared.types import ExecutionRequest, ExecutionResult, TestReport, TestRequest

_RESULT = TypeAdapter(ExecutionResult)
_LANGUAGES = TypeAdapter(dict[str, str])
_REPORT = TypeAdapter(TestReport)


class SandboxClient(ServiceClient):
    """Client of the sandbox: runs untrusted programs."""

    service = "sandbox"

    async def execute(self, request: ExecutionRequest) -> ExecutionResult:
        return await self._call("POST", "/v1/execute", request, _RESULT)

    async def languages(self) -> dict[str, str]:
        """Return the versions of the languages on the sandbox's host, by language."""
        return await self._call("GET", "/v1/languages", None, _LANGUAGES)

    async def test(self, request: TestRequest) -> TestReport:
        return await self._call("POST", "/v1/test", request, _REPORT)
