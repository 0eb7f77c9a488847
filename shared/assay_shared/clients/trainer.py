"""Client of the trainer service: starts, follows and stops runs over HTTP."""

import math
from collections.abc import AsyncIterator

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter

from assay_shared.clients.http import ServiceClient, Timeouts
from assay_shared.errors import InternalFault
from assay_shared.runs.run_folder import Event, RunStatus
from assay_shared.telemetry.context import new_request_id


class RunRequest(BaseModel):
    """A run to start: the content of a run file, and an unused name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    config: dict[str, JsonValue]


class RunInfo(BaseModel):
    """State of a run at the trainer."""

    name: str
    folder: str
    status: RunStatus
    #: 1 for the next run to start; null for a run that does not wait.
    queue_position: int | None = None


_INFO = TypeAdapter(RunInfo)
_INFOS = TypeAdapter(list[RunInfo])


class TrainerClient(ServiceClient):
    """Client of the trainer: starts, follows and stops runs."""

    service = "trainer"

    async def start(self, request: RunRequest) -> RunInfo:
        return await self._call("POST", "/v1/runs", request, _INFO)

    async def runs(self) -> list[RunInfo]:
        return await self._call("GET", "/v1/runs", None, _INFOS)

    async def run(self, name: str) -> RunInfo:
        return await self._call("GET", f"/v1/runs/{name}", None, _INFO)

    async def stop(self, name: str) -> RunInfo:
        return await self._call("POST", f"/v1/runs/{name}/stop", None, _INFO)

    async def resume(self, name: str) -> RunInfo:
        return await self._call("POST", f"/v1/runs/{name}/resume", None, _INFO)

    async def events(self, name: str) -> AsyncIterator[Event]:
        """Yield all events of a run from its first, as they happen, until the run ends."""
        async for line in self._lines(f"/v1/runs/{name}/events"):
            if line.startswith("data: "):
                yield Event.model_validate_json(line.removeprefix("data: "))

    async def _lines(self, path: str) -> AsyncIterator[str]:
        # A long run may have no events for a while; the server sends a comment every few seconds.
        limits = Timeouts(read_s=60.0, total_s=math.inf)
        async with self._stream("GET", path, None, new_request_id(), limits) as content:
            try:
                async for line in content:
                    yield line.decode().rstrip("\n")
            except ValueError as error:  # a line longer than aiohttp's limit
                raise InternalFault(f"GET {path}: {error}", service=self.service) from error
