"""The judge's HTTP service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from pydantic import JsonValue

from assay_judge.chain import make_chain
from assay_judge.config import JudgeConfig
from assay_judge.settings import JudgeSettings
from assay_shared.errors import ConfigError, Unreachable
from assay_shared.providers.state.ledger import Spending
from assay_shared.providers.state.state import make_shared_state
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.service.app import create_service
from assay_shared.service.auth import needs
from assay_shared.service.bodies.route import put_first, up_to, use_json_routes
from assay_shared.service.responses import errors_of
from assay_shared.settings.api_keys import Scope
from assay_shared.settings.run_file import load_config
from assay_shared.types import JudgeRequest, JudgeResponse

#: Largest body of a group: 256 answers of 64 KiB each.
_GROUP_BYTES = 16 * 2**20


def _read_config(path: Path | None) -> JudgeConfig:
    if path is not None and not path.exists():
        raise ConfigError(f"there is no file {path}", field="ASSAY_JUDGE_CONFIG")
    return JudgeConfig() if path is None else load_config(JudgeConfig, path)


def create_app(settings: JudgeSettings) -> FastAPI:
    """Return the service, with the chain of its configuration.

    Raises:
        ConfigError: the chain cannot be built; nothing is served.
    """
    config = _read_config(settings.judge_config)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with shared.opened():
            await chain.open()
            yield
            await chain.close()
        await large_bodies.close()

    def health() -> dict[str, JsonValue]:
        names = [provider.name for provider in config.chain]
        return {
            "chain": [*names],
            "open_circuits": [*chain.open_circuits],
            "paused_s": {**chain.paused_s},
        }

    app = create_service("judge", settings, lifespan, health=health, cancel_on_disconnect=True)
    large_bodies = use_json_routes(app)
    registry = app.state.metrics.registry
    redis_url = settings.redis_url if settings.judge_shared == "redis" else None
    shared = make_shared_state("judge", redis_url, registry)
    gate = FairLimiter(settings.judge_max_running, settings.judge_max_waiting)
    chain = make_chain(config, shared, gate, registry)

    @app.post(
        "/v1/judge",
        openapi_extra=needs(Scope.JUDGE_JUDGE) | up_to(_GROUP_BYTES),
        responses=errors_of(),
    )
    async def judge(request: JudgeRequest) -> JudgeResponse:
        """Judge a group of answers to one question."""
        return await chain.judge(request)

    @app.get(
        "/v1/spending", openapi_extra=needs(Scope.JUDGE_READ), responses=errors_of(Unreachable)
    )
    async def spending(run: str | None = None, caller: str | None = None) -> Spending:
        """Return requests, tokens and money spent by a run, by a caller, by both, or in total."""
        return await shared.ledger.spent(run, caller)

    put_first(app)
    return app
