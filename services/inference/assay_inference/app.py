"""Inference over HTTP: its own routes here, the OpenAI-compatible ones in `openai_api`."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from prometheus_client import Counter, Gauge

from assay_inference import openai_api
from assay_inference.engine import Engine, make_engine
from assay_inference.policy import Policy
from assay_inference.settings import InferenceSettings
from assay_shared.errors import NotFound
from assay_shared.service import create_service
from assay_shared.types import GenerateRequest, GenerateResponse, WeightStatus, WeightUpdate


def create_app(
    settings: InferenceSettings, engine_of: Callable[[InferenceSettings], Engine] = make_engine
) -> FastAPI:
    """The service with one engine, which is in `app.state` once the app has started.

    Raises:
        NotFound: the model to start with is not there; nothing is served.
    """
    model = settings.inference_model
    if model is not None and not model.is_dir():
        raise NotFound(f"there is no model folder {model}", field="ASSAY_INFERENCE_MODEL")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = app.state.engine = engine_of(settings)
        policy = app.state.policy = Policy(engine)
        if model is not None:
            await policy.start_with(model)
        yield
        await engine.close()

    def not_ready_because() -> str | None:
        return "no weights are loaded yet" if app.state.policy.status.policy is None else None

    app = create_service("inference", settings, lifespan, not_ready_because=not_ready_because)
    _add_generation(app)
    _add_weights(app)
    openai_api.add_routes(app, settings.inference_model_name)
    return app


def _add_generation(app: FastAPI) -> None:
    registry = app.state.metrics.registry
    tokens = Counter("assay_inference_tokens_total", "Tokens drawn.", registry=registry)

    @app.post("/v1/generate")
    async def generate(request: GenerateRequest) -> GenerateResponse:
        """Sample completions; token ids in and out, with log-probabilities."""
        engine: Engine = app.state.engine
        prompt = _prompt_token_ids(engine, request)
        completions = await engine.generate(prompt, request.sampling)
        tokens.inc(sum(len(completion.token_ids) for completion in completions))
        return GenerateResponse(prompt_token_ids=tuple(prompt), completions=tuple(completions))


def _add_weights(app: FastAPI) -> None:
    registry = app.state.metrics.registry
    version = Gauge("assay_inference_version", "Version served.", registry=registry)

    @app.post("/v1/weights")
    async def update_weights(update: WeightUpdate) -> WeightStatus:
        """Serve a new version once it is loaded and its probe holds."""
        policy: Policy = app.state.policy
        status = await policy.update(update)
        version.set(update.policy.version)
        return status

    @app.get("/v1/weights")
    async def weight_status() -> WeightStatus:
        """What is served."""
        policy: Policy = app.state.policy
        return policy.status


def _prompt_token_ids(engine: Engine, request: GenerateRequest) -> list[int]:
    if request.token_ids is not None:
        ids = list(request.token_ids)
        return engine.encode_further(ids, request.then) if request.then else ids
    if request.prompt is not None:
        return engine.encode(request.prompt)
    return engine.encode_chat(request.messages or ())
