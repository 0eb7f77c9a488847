"""The trainer over HTTP: runs, their events, and the pages of the run browser."""

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header
from fastapi.responses import StreamingResponse
from pydantic import JsonValue

from assay_shared.clients.trainer import RunInfo, RunRequest
from assay_shared.runtime.gpus import num_gpus, require_gpu
from assay_shared.service import audit
from assay_shared.service.app import create_service
from assay_shared.service.auth import needs
from assay_shared.service.bodies.route import put_first, up_to, use_json_routes
from assay_shared.settings.api_keys import Scope
from assay_shared.telemetry.context import client
from assay_trainer.browser.api.routes import add_pages
from assay_trainer.browser.facts.pipeline_facts import PipelineListing
from assay_trainer.service.queue_metrics import MeshMetrics, free_bytes
from assay_trainer.service.run_metrics import RunMetrics
from assay_trainer.service.runs import Runs
from assay_trainer.settings import TrainerSettings

#: Of the content of a run file.
_RUN_FILE_BYTES = 2**20
#: Below the folder of runs: the index files of the run browser.
_INDEXES = ".browser"


def create_app(settings: TrainerSettings, pipelines: PipelineListing | None = None) -> FastAPI:
    """Return the service; its runs are in `settings.runs`, and `pipelines` next to them.

    Raises:
        Conflict: the service needs a GPU, and none is here.
    """
    if settings.needs_gpu:
        require_gpu()
    runs = Runs(
        settings.runs,
        settings.shutdown_grace_s,
        settings.trainer_max_running,
        settings.trainer_max_waiting,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        runs.resume_stopped()
        async with watch.watching(), runs.starting():
            yield
        runs.close()
        pages.close()
        await large_bodies.close()

    def health() -> dict[str, JsonValue]:
        return {
            "runs": str(settings.runs),
            "runs_free_bytes": free_bytes(settings.runs),
            "gpus": num_gpus(),
        }

    app = create_service("trainer", settings, lifespan, health=health, on_stop=runs.begin_stop)
    large_bodies = use_json_routes(app, takes_half_characters=False)
    registry = app.state.metrics.registry
    registry.register(RunMetrics(runs))
    watch = MeshMetrics(settings.redis_url, runs, settings.runs, registry)
    _add_runs(app, runs, named=frozenset(settings.client_tokens))
    pages = add_pages(app, runs, settings.runs / _INDEXES, pipelines)
    put_first(app)
    return app


def _add_runs(app: FastAPI, runs: Runs, named: Container[str]) -> None:
    listing = asyncio.Lock()  # one thread: many would keep the event loop from its turn

    @app.post(
        "/v1/runs",
        status_code=201,
        openapi_extra=needs(Scope.TRAINER_CONTROL, action="start run") | up_to(_RUN_FILE_BYTES),
    )
    async def start(request: RunRequest) -> RunInfo:
        """Start a run; it waits in a queue if the maximum number of runs is running."""
        audit.note(name=request.name)
        return runs.start(request, started_by=client() if client() in named else "")

    @app.get("/v1/runs", openapi_extra=needs(Scope.TRAINER_READ))
    async def list_runs() -> list[RunInfo]:
        """List all runs, newest first."""
        async with listing:
            return await asyncio.to_thread(runs.list)

    @app.get("/v1/runs/{name}", openapi_extra=needs(Scope.TRAINER_READ))
    async def info(name: str) -> RunInfo:
        """Show the state of a run."""
        return runs.info(name)

    @app.post("/v1/runs/{name}/stop", openapi_extra=needs(Scope.TRAINER_CONTROL, action="stop run"))
    async def stop(name: str) -> RunInfo:
        """Stop a run after its step."""
        return runs.stop(name)

    @app.post(
        "/v1/runs/{name}/resume", openapi_extra=needs(Scope.TRAINER_CONTROL, action="resume run")
    )
    async def resume(name: str) -> RunInfo:
        """Resume a stopped or failed run."""
        return runs.resume(name)

    @app.get("/v1/runs/{name}/events", openapi_extra=needs(Scope.TRAINER_READ))
    async def events(name: str, last_event_id: Annotated[str, Header()] = "0") -> StreamingResponse:
        """Send all events of a run as server-sent events, until the run ends.

        With `Last-Event-ID`, the events after that id.
        """
        parts = await runs.events(name, last_event_id)
        return StreamingResponse(parts, media_type="text/event-stream")
