"""The HTTP API of the sandbox."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, JsonValue

from assay_sandbox.execution.checks import check_size
from assay_sandbox.formats.open_instruct import (
    AssertRequest,
    OpenInstructResults,
    StdioRequest,
    from_cases,
)
from assay_sandbox.formats.sandbox_fusion.datasets import (
    DatasetPrompt,
    GetPromptByIdRequest,
    GetPromptsRequest,
    MetricsFunction,
    MetricsRequest,
)
from assay_sandbox.formats.sandbox_fusion.jupyter import RunJupyterRequest
from assay_sandbox.formats.sandbox_fusion.programs import RunCodeRequest, unavailable
from assay_sandbox.formats.sandbox_fusion.routes import SandboxFusion
from assay_sandbox.formats.sandbox_fusion.submit import SubmitRequest, SubmitResponse
from assay_sandbox.sandbox import LocalSandbox
from assay_sandbox.sessions.sessions import Sessions
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import (
    Conflict,
    InfrastructureError,
    NotFound,
    NotReady,
    Overloaded,
    SandboxFault,
    TimedOut,
)
from assay_shared.service import audit
from assay_shared.service.app import create_service
from assay_shared.service.auth import needs
from assay_shared.service.bodies.route import put_first, up_to, use_json_routes
from assay_shared.service.responses import errors_of, errors_of_reading
from assay_shared.settings.api_keys import Scope
from assay_shared.telemetry.context import client
from assay_shared.types import (
    Cell,
    CellResult,
    ExecutionRequest,
    ExecutionResult,
    FileName,
    Session,
    SessionRequest,
    TestReport,
    TestRequest,
)

#: Largest request with a cell.
_CELL_BYTES = 4 * 2**20


def create_app(settings: SandboxSettings) -> FastAPI:
    """Return the sandbox service; its slots open when it starts."""
    sandbox: LocalSandbox

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nonlocal sandbox
        sandbox = LocalSandbox(settings, app.state.metrics.registry)
        await sandbox.open()
        yield
        await large_bodies.close()
        await sandbox.close()

    app = create_service(
        "sandbox",
        settings,
        lifespan,
        health=lambda: _describe(sandbox, settings),
        cancel_on_disconnect=True,
        body_limit_bytes=settings.sandbox_body_limit_bytes,
    )
    large_bodies = use_json_routes(app)

    @app.post(
        "/v1/execute", openapi_extra=needs(Scope.SANDBOX_RUN), responses=errors_of(SandboxFault)
    )
    async def execute(request: ExecutionRequest) -> ExecutionResult:
        """Run a program once."""
        return await sandbox.execute(request)

    @app.post("/v1/test", openapi_extra=needs(Scope.SANDBOX_RUN), responses=errors_of(SandboxFault))
    async def test(request: TestRequest) -> TestReport:
        """Run a program's cases and judge them."""
        return await sandbox.test(request)

    @app.get(
        "/v1/languages", openapi_extra=needs(Scope.SANDBOX_READ), responses=errors_of_reading()
    )
    def languages() -> dict[str, str]:
        """Return the languages of this host with their versions."""
        return sandbox.languages()

    _add_sessions(app, lambda: sandbox.sessions)
    _add_session_files(app, lambda: sandbox.sessions, settings.sandbox_writable_bytes)
    _add_sandbox_fusion(app, lambda: sandbox, settings)
    _add_open_instruct(app, lambda: sandbox)
    put_first(app)
    return app


def _describe(sandbox: LocalSandbox, settings: SandboxSettings) -> dict[str, JsonValue]:
    """Return the sandbox's fields of /health, in addition to the fields of all services."""
    return {
        "isolation": sandbox.isolation,
        "minimum_isolation": settings.sandbox_minimum_isolation,
        "separate_users": sandbox.host.first_uid is not None,
        "python": sandbox.python_version,
        "slots": sandbox.num_slots,
        **sandbox.load(),
    }


def _add_sessions(app: FastAPI, opened: Callable[[], Sessions]) -> None:
    """Add the routes of sessions. Only the client of a session can use it."""

    @app.post(
        "/v1/sessions",
        status_code=201,
        openapi_extra=needs(Scope.SANDBOX_SESSIONS, action="start session"),
        responses=errors_of(),
    )
    async def create(request: SessionRequest) -> Session:
        """Start an interpreter; its names last from cell to cell."""
        session = await opened().create(request, client())
        audit.note(session=session.id)
        return session

    @app.get(
        "/v1/sessions/{session}",
        openapi_extra=needs(Scope.SANDBOX_SESSIONS),
        responses=errors_of(NotFound),
    )
    async def describe(session: str) -> Session:
        """Return a live session, with the time until it ends."""
        return opened().describe(session, client())

    @app.post(
        "/v1/sessions/{session}/execute",
        openapi_extra=needs(Scope.SANDBOX_SESSIONS) | up_to(_CELL_BYTES),
        responses=errors_of(NotFound, Conflict, SandboxFault),
    )
    async def execute(session: str, cell: Cell) -> CellResult:
        """Run a cell and return its result."""
        return await opened().execute(session, client(), cell.code)

    @app.delete(
        "/v1/sessions/{session}",
        status_code=204,
        openapi_extra=needs(Scope.SANDBOX_SESSIONS, action="end session"),
        responses=errors_of(NotFound),
    )
    async def end(session: str) -> None:
        """End the session."""
        await opened().end(session, client())


def _add_session_files(app: FastAPI, opened: Callable[[], Sessions], room_bytes: int) -> None:
    """Add the routes for the files of sessions."""
    errors = errors_of(NotFound, Conflict, SandboxFault)

    @app.put(
        "/v1/sessions/{session}/files/{name:path}",
        status_code=204,
        openapi_extra=needs(Scope.SANDBOX_SESSIONS),
        responses=errors,
    )
    async def put_file(session: str, name: FileName, request: Request) -> None:
        """Write a file: the body is its content."""
        content = check_size(await request.body(), room_bytes)
        await opened().put_file(session, client(), name, content)

    @app.get(
        "/v1/sessions/{session}/files/{name:path}",
        openapi_extra=needs(Scope.SANDBOX_SESSIONS),
        responses=errors,
    )
    async def get_file(session: str, name: FileName) -> Response:
        """Read a file."""
        content = await opened().get_file(session, client(), name)
        return Response(content, media_type="application/octet-stream")


def _add_sandbox_fusion(
    app: FastAPI, opened: Callable[[], LocalSandbox], settings: SandboxSettings
) -> None:
    """Add SandboxFusion's routes. They answer 504 for our own faults: the only status after which
    its clients retry.
    """
    fusion = SandboxFusion(opened, settings.sandbox_datasets)

    @app.post(
        "/run_code",
        response_model=None,
        openapi_extra=needs(Scope.SANDBOX_RUN),
        responses=errors_of(TimedOut),
    )
    async def run_code(request: RunCodeRequest) -> BaseModel | JSONResponse:
        """Run a program in SandboxFusion's format; 504 if it could not be run, for a retry."""
        return await in_their_words(fusion.run_code(request))

    @app.post(
        "/run_jupyter",
        response_model=None,
        openapi_extra=needs(Scope.SANDBOX_RUN),
        responses=errors_of(TimedOut),
    )
    async def run_jupyter(request: RunJupyterRequest) -> BaseModel | JSONResponse:
        """Run the cells of a notebook; 504 as for `/run_code`."""
        return await in_their_words(fusion.run_jupyter(request))

    async def in_their_words(answer: Awaitable[BaseModel]) -> BaseModel | JSONResponse:
        try:
            return await answer
        except InfrastructureError as error:
            return JSONResponse(unavailable(str(error)).model_dump(mode="json"), status_code=504)

    @app.post(
        "/submit", openapi_extra=needs(Scope.SANDBOX_RUN), responses=errors_of(NotFound, TimedOut)
    )
    async def submit(request: SubmitRequest) -> SubmitResponse:
        """Judge a completion in SandboxFusion's format; 504 as for `/run_code`."""
        try:
            return await fusion.submit(request)
        except InfrastructureError as error:
            raise TimedOut(str(error), retry_after_s=error.retry_after_s) from error

    _add_datasets(app, fusion)


def _add_datasets(app: FastAPI, fusion: SandboxFusion) -> None:
    """Add SandboxFusion's routes for data sets."""

    @app.get(
        "/list_datasets", openapi_extra=needs(Scope.SANDBOX_READ), responses=errors_of_reading()
    )
    def list_datasets() -> list[str]:
        """List the data sets stored here."""
        return fusion.datasets.names()

    @app.post("/list_ids", openapi_extra=needs(Scope.SANDBOX_READ), responses=errors_of(NotFound))
    async def list_ids(request: GetPromptsRequest) -> list[int | str]:
        """List the problems of a data set."""
        return await fusion.datasets.ids(request)

    @app.post(
        "/get_prompts", openapi_extra=needs(Scope.SANDBOX_READ), responses=errors_of(NotFound)
    )
    async def get_prompts(request: GetPromptsRequest) -> list[DatasetPrompt]:
        """Return the prompt of each problem."""
        return await fusion.get_prompts(request)

    @app.post(
        "/get_prompt_by_id", openapi_extra=needs(Scope.SANDBOX_READ), responses=errors_of(NotFound)
    )
    async def get_prompt_by_id(request: GetPromptByIdRequest) -> DatasetPrompt:
        """Return the prompt of a problem."""
        return await fusion.get_prompt_by_id(request)

    @app.post("/get_metrics", openapi_extra=needs(Scope.SANDBOX_READ), responses=errors_of())
    async def get_metrics(request: MetricsRequest) -> dict[str, JsonValue]:
        """Return an empty object: the served data sets have no own metrics in SandboxFusion."""
        return {}

    @app.post(
        "/get_metrics_function", openapi_extra=needs(Scope.SANDBOX_READ), responses=errors_of()
    )
    async def get_metrics_function(request: MetricsRequest) -> MetricsFunction:
        """Return no function: the served data sets have no own metrics in SandboxFusion."""
        return MetricsFunction()


def _add_open_instruct(app: FastAPI, opened: Callable[[], LocalSandbox]) -> None:
    """Add open-instruct's routes."""

    @app.post(
        "/test_program", openapi_extra=needs(Scope.SANDBOX_RUN), responses=errors_of(SandboxFault)
    )
    async def test_program(request: AssertRequest) -> OpenInstructResults:
        """Judge a program by assertion tests, in open-instruct's format."""
        return await results(request.to_test())

    @app.post(
        "/test_program_stdio",
        openapi_extra=needs(Scope.SANDBOX_RUN),
        responses=errors_of(SandboxFault),
    )
    async def test_program_stdio(request: StdioRequest) -> OpenInstructResults:
        """Judge a program by stdin tests, in open-instruct's format."""
        return await results(request.to_test())

    async def results(test: TestRequest) -> OpenInstructResults:
        try:
            return from_cases((await opened().test(test)).cases)
        except Overloaded as error:  # open-instruct's client only knows errors from 500 up
            raise NotReady(error.message, retry_after_s=error.retry_after_s) from error
