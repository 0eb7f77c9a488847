"""Inference's HTTP service and own routes; `openai_routes` has the OpenAI-compatible routes."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, Header, Request
from fastapi.responses import StreamingResponse
from prometheus_client import Histogram
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from assay_inference.api import logprobs, openai_routes
from assay_inference.api import uploads as upload_api
from assay_inference.api.metrics import EngineMetrics
from assay_inference.api.streaming import Part, draw_parts
from assay_inference.engines.engine import Engine
from assay_inference.engines.factory import check_engine, check_model, make_engine
from assay_inference.serving.admission import Admission, AdmissionStatus, QueueLimits
from assay_inference.serving.generate import Generation
from assay_inference.serving.served_policy import ServedPolicy
from assay_inference.serving.unserved import Unserved
from assay_inference.settings import InferenceSettings
from assay_inference.tokenizer.chat_template import Turn
from assay_inference.tokenizer.texts import PROMPT_BYTES, Texts
from assay_inference.weights.uploads import Uploads
from assay_shared.errors import AssayError, Forbidden, NotFound, NotReady, to_body
from assay_shared.runtime.gpus import num_gpus
from assay_shared.service import audit
from assay_shared.service.app import create_service
from assay_shared.service.auth import PRIORITIES, needs
from assay_shared.service.bodies.route import put_first, up_to, use_json_routes
from assay_shared.settings.api_keys import Scope
from assay_shared.telemetry.context import (
    DEADLINE_HEADER,
    PRIORITY_HEADER,
    RUN_HEADER,
    WorkPurpose,
    request_id,
    set_purpose,
)
from assay_shared.telemetry.metrics import LATENCY_BUCKETS_S
from assay_shared.telemetry.tracing import span
from assay_shared.types import (
    CheckedWeights,
    FolderWeights,
    GeneratedText,
    GenerateRequest,
    GenerateResponse,
    Priority,
    WeightDigest,
    WeightStatus,
    WeightUpdate,
)

_log = logging.getLogger(__name__)

_MAX_WAIT_S = 3600.0
#: Largest body that announces weights: a direct transfer lists each tensor.
_WEIGHTS_BYTES = 16 * 2**20
#: Largest body with a single number.
_CONTROL_BYTES = 4 * 2**10
_MAX_DEADLINE_S = 24 * 3600.0


class StopRequest(BaseModel):
    """Body of a pause or a drain: the longest wait for requests in flight, before the answer."""

    model_config = ConfigDict(extra="forbid")

    wait_s: float = Field(default=0.0, ge=0, le=_MAX_WAIT_S)


async def note_purpose(
    request: Request,
    priority: Annotated[Priority | None, Header(alias=PRIORITY_HEADER)] = None,
    run: Annotated[str, Header(alias=RUN_HEADER, max_length=128)] = "",
    deadline_s: Annotated[
        float | None, Header(alias=DEADLINE_HEADER, gt=0, le=_MAX_DEADLINE_S)
    ] = None,
) -> None:
    """Store the request's purpose (priority, run, deadline) in the context of its task.

    Raises:
        Forbidden: the caller's key does not allow this priority class.
    """
    allowed = request.scope.get(PRIORITIES)
    if allowed is not None and (priority or Priority.INTERACTIVE) not in allowed:
        raise Forbidden(
            f"this key is not for the class {priority or Priority.INTERACTIVE}",
            field=PRIORITY_HEADER,
            hint=f"it is for {', '.join(sorted(allowed))}",
        )
    set_purpose(WorkPurpose(priority or "", run, deadline_s))


async def note_unserved(request: Request) -> AsyncIterator[None]:
    """Count a request that is refused because nothing can serve it yet."""
    try:
        yield
    except NotReady:
        request.app.state.unserved.note()
        raise


def create_app(
    settings: InferenceSettings, engine_of: Callable[[InferenceSettings], Engine] = make_engine
) -> FastAPI:
    """Return the service with its engine; `app.state` has the engine once the app has started.

    Raises:
        ConfigError: the engine cannot run here.
        NotFound: the folder of the first model does not exist; nothing is served.
    """
    check_engine(settings)
    model = _find_model(settings)
    loads: set[asyncio.Task[WeightStatus]] = set()

    def stop_loading() -> None:
        for load in loads:
            load.cancel()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = engine_of(settings)
        _keep(app, settings, engine)
        try:
            start = None if model is None else _start_with(app, model, loads)
            async with _begun(start, waits=not _may_have_no_engine(settings)):
                yield
        finally:
            await engine.close()
            await app.state.uploads.close()
            app.state.texts.close()
            await large_bodies.close()

    def not_ready_because() -> str | None:
        engine: Engine = app.state.engine
        admission: Admission = app.state.admission
        return admission.not_ready_because() or engine.not_ready_because()

    app = create_service(
        "inference",
        settings,
        lifespan,
        not_ready_because=not_ready_because,
        health=lambda: _facts(settings),
        cancel_on_disconnect=True,
        on_stop=stop_loading,
    )
    large_bodies = use_json_routes(app, takes_half_characters=False)
    app.router.dependencies += [Depends(note_purpose), Depends(note_unserved)]
    _add_routes(app, settings, loads)
    return app


def _add_routes(
    app: FastAPI, settings: InferenceSettings, loads: set[asyncio.Task[WeightStatus]]
) -> None:
    _add_generation(app)
    _add_weights(app, loads)
    _add_weight_check(app, settings)
    _add_admission(app)
    upload_api.add_routes(app)
    logprobs.add_routes(app)
    openai_routes.add_routes(app, settings.inference_model_name)
    put_first(app)


def _keep(app: FastAPI, settings: InferenceSettings, engine: Engine) -> None:
    """Create the objects used by the routes and store them in `app.state`."""
    app.state.engine = engine
    uploads = app.state.uploads = Uploads.of(settings)
    policy = app.state.policy = ServedPolicy(engine, uploads, settings.weight_roots)
    texts = app.state.texts = Texts()
    registry = app.state.metrics.registry
    limits = QueueLimits.of(settings, lambda: engine.max_sequences, lambda: engine.max_tokens)
    admission = Admission(limits, registry)
    app.state.admission, app.state.front = admission, Generation(engine, admission, texts)
    unserved = app.state.unserved = Unserved()
    registry.register(EngineMetrics(engine, admission, policy, unserved))


def _find_model(settings: InferenceSettings) -> Path | None:
    model = settings.inference_model
    if model is not None and not model.is_dir():
        raise NotFound(f"there is no model folder {model}", field="ASSAY_INFERENCE_MODEL")
    return model


def _add_generation(app: FastAPI) -> None:
    @app.post("/v1/generate", openapi_extra=needs(Scope.INFERENCE_GENERATE) | up_to(PROMPT_BYTES))
    async def generate(request: GenerateRequest) -> GenerateResponse:
        """Sample completions; token ids in and out, with log-probabilities."""
        front: Generation = app.state.front
        prompt = await _prompt_token_ids(front, request)
        completions = await front.generate(prompt, request.sampling)
        return GenerateResponse(prompt_token_ids=tuple(prompt), completions=tuple(completions))

    @app.post(
        "/v1/generate/stream",
        response_class=StreamingResponse,
        openapi_extra=needs(Scope.INFERENCE_GENERATE) | up_to(PROMPT_BYTES),
    )
    async def generate_stream(request: GenerateRequest) -> StreamingResponse:
        """Sample completions as JSON lines: texts as they are sampled, then the whole answer."""
        front: Generation = app.state.front
        prompt = await _prompt_token_ids(front, request)
        parts = draw_parts(front, prompt, request.sampling)
        first = await anext(parts)  # an error before the first part still gets its own status
        return StreamingResponse(_lines(prompt, first, parts), media_type="application/x-ndjson")


def _may_have_no_engine(settings: InferenceSettings) -> bool:
    """Return True if engines come and go: the service answers before the first one is there."""
    return settings.inference_engine == "replicas" and "dns+" in settings.inference_replicas


@asynccontextmanager
async def _begun(start: Coroutine[None, None, None] | None, *, waits: bool) -> AsyncIterator[None]:
    """Serve the first model in the block: before it begins, or as soon as an engine takes it."""
    if start is None or waits:
        if start is not None:
            await start
        yield
        return
    task = asyncio.create_task(start)
    task.add_done_callback(_tell_failure)
    try:
        yield
    finally:
        task.cancel()


def _tell_failure(start: asyncio.Task[None]) -> None:
    error = None if start.cancelled() else start.exception()
    if error is not None:
        _log.error("the first model is not served: %s", error)


async def _start_with(app: FastAPI, model: Path, loads: set[asyncio.Task[WeightStatus]]) -> None:
    """Serve a folder, unless the service is told to stop while it is loaded."""
    load = asyncio.create_task(app.state.policy.start_with(model))
    loads.add(load)
    await asyncio.wait({load})
    loads.discard(load)
    if not load.cancelled():
        load.result()
        await app.state.texts.prepare(app.state.engine.vocabulary)


def _add_weight_check(app: FastAPI, settings: InferenceSettings) -> None:
    @app.post(
        "/v1/weights/check", openapi_extra=needs(Scope.INFERENCE_PUBLISH) | up_to(_CONTROL_BYTES)
    )
    async def check_weights(source: FolderWeights) -> CheckedWeights:
        """Return the sizes of a checkpoint that could be served; load nothing."""
        policy: ServedPolicy = app.state.policy
        found = await policy.check(source)
        await asyncio.to_thread(check_model, settings, Path(source.path))
        return found


def _add_weights(app: FastAPI, loads: set[asyncio.Task[WeightStatus]]) -> None:
    """Add the routes; `loads` holds the loads in flight, to be cancelled when the service stops."""
    registry = app.state.metrics.registry
    sync_s = Histogram(
        "assay_inference_sync_seconds",
        "Time of a phase of putting new weights into the engine.",
        ["phase"],
        buckets=LATENCY_BUCKETS_S,
        registry=registry,
    )

    @app.post(
        "/v1/weights",
        openapi_extra=needs(Scope.INFERENCE_PUBLISH, action="publish weights")
        | up_to(_WEIGHTS_BYTES),
    )
    async def update_weights(update: WeightUpdate) -> WeightStatus:
        """Serve a new version once it is loaded and its probe holds."""
        policy: ServedPolicy = app.state.policy
        version, digest = update.policy.version, update.policy.digest
        audit.note(version=version, digest=digest, source=update.source.kind)
        # The load continues if the trainer disconnects: half a load is not a version.
        load = asyncio.create_task(_load(policy, update))
        loads.add(load)
        load.add_done_callback(loads.discard)
        status = await asyncio.shield(load)
        await app.state.texts.prepare(app.state.engine.vocabulary)
        phases_s = status.phases_s or {"load": status.load_time_s or 0.0}
        for phase, took_s in phases_s.items():
            sync_s.labels(phase).observe(took_s)
        return status

    @app.get("/v1/weights", openapi_extra=needs(Scope.INFERENCE_READ))
    async def weight_status() -> WeightStatus:
        """Return the status of the served weights."""
        policy: ServedPolicy = app.state.policy
        return policy.status

    @app.get("/v1/weights/digest", openapi_extra=needs(Scope.INFERENCE_READ))
    async def weight_digest() -> WeightDigest:
        """Compare all of the engine's weights with their source."""
        engine: Engine = app.state.engine
        return await engine.digest()


def _facts(settings: InferenceSettings) -> dict[str, JsonValue]:
    """Return the engine's name, the number of GPUs, and the device of transformers."""
    facts: dict[str, JsonValue] = {"engine": settings.inference_engine, "gpus": num_gpus()}
    if settings.inference_engine == "transformers":
        from assay_inference.engines.transformers.model import best_device

        facts["device"] = settings.inference_device or best_device()
    return facts


async def _load(policy: ServedPolicy, update: WeightUpdate) -> WeightStatus:
    with span("inference.weights", version=update.policy.version, source=update.source.kind) as one:
        status = await policy.update(update)
        one.note(**{f"{phase}_s": took_s for phase, took_s in status.phases_s.items()})
    return status


async def _lines(
    prompt: list[int],
    part: Part,
    parts: AsyncGenerator[Part, None],
) -> AsyncIterator[str]:
    async with aclosing(parts):
        try:
            while isinstance(part, tuple):
                yield GeneratedText(index=part[0], text=part[1]).model_dump_json() + "\n"
                part = await anext(parts)
        except AssayError as error:
            yield to_body(error, "inference", request_id()).model_dump_json() + "\n"
            return
        whole = GenerateResponse(prompt_token_ids=tuple(prompt), completions=tuple(part))
        yield whole.model_dump_json() + "\n"


def _add_admission(app: FastAPI) -> None:
    def admission() -> Admission:
        found: Admission = app.state.admission
        return found

    @app.get("/v1/admission", openapi_extra=needs(Scope.INFERENCE_READ))
    async def admission_status() -> AdmissionStatus:
        """Return the numbers of running and waiting sequences, and the state of admission."""
        return admission().status

    @app.post(
        "/v1/pause",
        openapi_extra=needs(Scope.INFERENCE_CONTROL, action="pause") | up_to(_CONTROL_BYTES),
    )
    async def pause(stop: StopRequest | None = None) -> AdmissionStatus:
        """Start no more requests; they wait. The pause ends after a maximum time."""
        return await admission().pause((stop or StopRequest()).wait_s)

    @app.post("/v1/resume", openapi_extra=needs(Scope.INFERENCE_CONTROL, action="resume"))
    async def resume() -> AdmissionStatus:
        """End a pause or a drain."""
        return admission().resume()

    @app.post(
        "/v1/drain",
        openapi_extra=needs(Scope.INFERENCE_CONTROL, action="drain") | up_to(_CONTROL_BYTES),
    )
    async def drain(stop: StopRequest | None = None) -> AdmissionStatus:
        """Refuse new requests, finish the requests in flight and in the queue."""
        return await admission().drain((stop or StopRequest()).wait_s)


async def _prompt_token_ids(front: Generation, request: GenerateRequest) -> list[int]:
    num_sequences = request.sampling.n
    if request.token_ids is not None:
        ids = list(request.token_ids)
        if not request.then:
            return ids
        return await front.encode_further(ids, request.then, request.template, num_sequences)
    if request.prompt is not None:
        return (await front.encode([request.prompt], num_sequences))[0]
    turns: list[Turn] = [message.model_dump() for message in request.messages or ()]
    return await front.encode_turns(turns, (), request.template, num_sequences)
