"""The judge over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from pydantic import JsonValue

from assay_judge.config import JudgeConfig
from assay_judge.judge import JudgeChain, make_providers
from assay_judge.settings import JudgeSettings
from assay_shared.admission import Gate
from assay_shared.config import load_config
from assay_shared.service import create_service
from assay_shared.types import JudgeRequest, JudgeResponse


def create_app(settings: JudgeSettings) -> FastAPI:
    """The service with the chain of its configuration.

    Raises:
        ConfigError: the chain cannot be built; nothing is served.
    """
    path = settings.judge_config
    config = JudgeConfig() if path is None else load_config(JudgeConfig, path)
    providers = make_providers(config)
    chain: JudgeChain

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nonlocal chain
        gate = Gate(settings.judge_max_running, settings.judge_max_waiting)
        chain = JudgeChain(providers, gate, app.state.metrics.registry)
        await chain.open()
        yield
        await chain.close()

    def health() -> dict[str, JsonValue]:
        return {"chain": [provider.name for provider in providers]}

    app = create_service("judge", settings, lifespan, health=health)

    @app.post("/v1/judge")
    async def judge(request: JudgeRequest) -> JudgeResponse:
        """Judge a group of answers to one question."""
        return await chain.judge(request)

    return app
