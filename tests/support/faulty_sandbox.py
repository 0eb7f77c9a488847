"""A sandbox service with real runs, but for programs it is told to fail on."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI

from assay_shared.clients import SandboxClient
from assay_shared.errors import SandboxFault
from assay_shared.service.app import create_service
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import TestReport, TestRequest


def create_faulty_sandbox(behind: str, fails: Callable[[str], bool]) -> FastAPI:
    """A service in front of the sandbox `behind`; `fails` gets each program."""
    client = SandboxClient(behind)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with client:
            yield

    app = create_service("sandbox", ServiceSettings(), lifespan)

    @app.post("/v1/test")
    async def test(request: TestRequest) -> TestReport:
        if fails(request.code):
            raise SandboxFault("planted")
        return await client.test(request)

    return app
