"""Inference over HTTP: its own routes here, the OpenAI-compatible ones in `openai_api`."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from prometheus_client import Gauge, Histogram

from assay_inference import openai_api
from assay_inference.engine import Engine, check_engine, make_engine
from assay_inference.engine_metrics import EngineMetrics
from assay_inference.policy import Policy
from assay_inference.settings import InferenceSettings
from assay_shared.errors import NotFound
from assay_shared.metrics import LATENCY_BUCKETS_S
from assay_shared.service import create_service
from assay_shared.types import GenerateRequest, GenerateResponse, WeightStatus, WeightUpdate


def create_app(
    settings: InferenceSettings, engine_of: Callable[[InferenceSettings], Engine] = make_engine
) -> FastAPI:
    """The service with one engine, which is in `app.state` once the app has started.

    Raises:
        ConfigError: the engine cannot run here.
        NotFound: the model to start with is not there; nothing is served.
    """
    check_engine(settings)
    model = settings.inference_model
    if model is not None and not model.is_dir():
        raise NotFound(f"there is no model folder {model}", field="ASSAY_INFERENCE_MODEL")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = app.state.engine = engine_of(settings)
        policy = app.state.policy = Policy(engine)
        app.state.metrics.registry.register(EngineMetrics(engine))
        try:
            if model is not None:
                await policy.start_with(model)
            yield
        finally:
            await engine.close()

    def not_ready_because() -> str | None:
        engine: Engine = app.state.engine
        return engine.not_ready_because()

    app = create_service("inference", settings, lifespan, not_ready_because=not_ready_because)
    _add_generation(app)
    _add_weights(app)
    openai_api.add_routes(app, settings.inference_model_name)
    return app


def _add_generation(app: FastAPI) -> None:
    @app.post("/v1/generate")
    async def generate(request: GenerateRequest) -> GenerateResponse:
        """Sample completions; token ids in and out, with log-probabilities."""
        engine: Engine = app.state.engine
        prompt = _prompt_token_ids(engine, request)
        completions = await engine.generate(prompt, request.sampling)
        return GenerateResponse(prompt_token_ids=tuple(prompt), completions=tuple(completions))


def _add_weights(app: FastAPI) -> None:
    registry = app.state.metrics.registry
    version = Gauge("assay_inference_version", "Version served.", registry=registry)
    sync_s = Histogram(
        "assay_inference_sync_seconds",
        "Time of a phase of putting new weights into the engine.",
        ["phase"],
        buckets=LATENCY_BUCKETS_S,
        registry=registry,
    )

    @app.post("/v1/weights")
    async def update_weights(update: WeightUpdate) -> WeightStatus:
        """Serve a new version once it is loaded and its probe holds."""
        policy: Policy = app.state.policy
        status = await policy.update(update)
        version.set(update.policy.version)
        for phase, took_s in status.phases_s.items():
            sync_s.labels(phase).observe(took_s)
        return status

    @app.get("/v1/weights")
    async def weight_status() -> WeightStatus:
        """What is served."""
        policy: Policy = app.state.policy
        return policy.status


def _prompt_token_ids(engine: Engine, request: GenerateRequest) -> list[int]:
    if request.token_ids is not None:
        ids = list(request.token_ids)
        return engine.vocabulary.encode_further(ids, request.then) if request.then else ids
    if request.prompt is not None:
        return engine.vocabulary.encode(request.prompt)
    return engine.vocabulary.encode_chat(request.messages or ())
