"""The sandbox over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from pydantic import JsonValue

from assay_sandbox.sandbox import LocalSandbox
from assay_sandbox.sandbox_fusion import (
    RunCodeRequest,
    from_result,
    to_execution,
    unavailable,
)
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import InfrastructureError
from assay_shared.service import create_service
from assay_shared.types import ExecutionRequest, ExecutionResult, TestReport, TestRequest


def create_app(settings: SandboxSettings) -> FastAPI:
    """The service, with its slots."""
    sandbox: LocalSandbox

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nonlocal sandbox
        sandbox = LocalSandbox(settings, app.state.metrics.registry)
        await sandbox.open()
        yield
        await sandbox.close()

    def health() -> dict[str, JsonValue]:
        return {
            "isolation": sandbox.isolation,
            "minimum_isolation": settings.sandbox_minimum_isolation,
            "separate_users": sandbox.host.first_uid is not None,
            "python": sandbox.host.python,
            "slots": settings.sandbox_slots,
        }

    app = create_service(
        "sandbox",
        settings,
        lifespan,
        health=health,
        cancel_on_disconnect=True,
        body_limit_bytes=settings.sandbox_body_limit_bytes,
    )

    @app.post("/v1/execute")
    async def execute(request: ExecutionRequest) -> ExecutionResult:
        """Run a program once."""
        return await sandbox.execute(request)

    @app.post("/v1/test")
    async def test(request: TestRequest) -> TestReport:
        """Run a program's cases and judge them."""
        return await sandbox.test(request)

    @app.post("/run_code")
    async def run_code(request: RunCodeRequest) -> JSONResponse:
        """SandboxFusion's format; 504 where the program could not be run, so that it is retried."""
        execution = to_execution(request)
        try:
            response = from_result(await sandbox.execute(execution))
        except InfrastructureError as error:
            return JSONResponse(unavailable(str(error)).model_dump(), status_code=504)
        return JSONResponse(response.model_dump())

    @app.get("/v1/languages")
    def languages() -> dict[str, str]:
        """The languages that this host has, with their versions."""
        return sandbox.languages()

    return app
