"""Base app of every service: health, readiness, metrics and errors. A service adds its routes."""

import logging
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.telemetry import TelemetryConfig
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import JsonValue
from starlette.exceptions import HTTPException

from assay_shared import __version__
from assay_shared.errors import (
    AssayError,
    CallerError,
    InternalFault,
    InvalidInput,
    NotFound,
    NotReady,
    to_body,
)
from assay_shared.service.audit import Audit
from assay_shared.service.auth import BearerAuth
from assay_shared.service.bodies.body import InvalidBody
from assay_shared.service.browsers import BrowserGuard
from assay_shared.service.key_ring import KeyRing
from assay_shared.service.middleware import BodyLimit, CancelOnDisconnect, Observe
from assay_shared.settings.environment import OWN, ServiceSettings
from assay_shared.settings.validation import message_of
from assay_shared.telemetry.context import request_id
from assay_shared.telemetry.metrics import ServiceMetrics

_log = logging.getLogger(__name__)

_UNREADABLE = "the body must be UTF-8 JSON, nested less than 100 levels deep"
#: Assay has its own traces and metrics; FastAPI's would cost time on each request.
_NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
#: Most characters of a client's text in an error.
_MAX_ECHO = 200
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_service(
    name: str,
    settings: ServiceSettings,
    lifespan: Lifespan,
    *,
    not_ready_because: Callable[[], str | None] = lambda: None,
    health: Callable[[], dict[str, JsonValue]] = dict,
    cancel_on_disconnect: bool = False,
    body_limit_bytes: int | None = None,
    on_stop: Callable[[], None] = lambda: None,
    first_page: str = "/",
) -> FastAPI:
    """Return an app with the common parts of all services.

    Args:
        lifespan: opens and closes the resources of the service.
        not_ready_because: returns why the service cannot serve yet, or None if it can.
        health: returns facts to show on /health with name and version.
        cancel_on_disconnect: if True, a request's work is cancelled when its client disconnects.
        body_limit_bytes: overrides the limit in the settings.
        on_stop: called as soon as a stop is requested, before waiting for requests in flight.
        first_page: where a link leads that opens a browser's session.
    """
    app = FastAPI(
        title=f"assay {name}", version=__version__, lifespan=lifespan, telemetry=_NO_TELEMETRY
    )
    app.state.metrics = ServiceMetrics(name, __version__)
    app.state.on_stop = on_stop
    _add_error_handlers(app, name)
    _add_probes(app, name, not_ready_because, health)
    limit_bytes = body_limit_bytes or settings.body_limit_bytes
    app.add_middleware(BodyLimit, limit_bytes=limit_bytes, service=name)
    if cancel_on_disconnect:
        app.add_middleware(CancelOnDisconnect)
    keys = settings.accepted_keys(name)
    has_keys = bool(keys) or settings.client_tokens_file is not None
    app.state.has_keys = has_keys
    if has_keys:
        ring = KeyRing(keys, OWN, settings.client_tokens_file)
        app.add_middleware(
            BearerAuth, keys=ring, service=name, routes=lambda: app.routes, first_page=first_page
        )
    hosts = [host.strip() for host in settings.allowed_hosts.split(",") if host.strip()]
    app.add_middleware(BrowserGuard, service=name, allowed_hosts=hosts, has_keys=has_keys)
    app.add_middleware(Audit)
    app.add_middleware(Observe, metrics=app.state.metrics, service=name)
    return app


def _add_probes(
    app: FastAPI,
    name: str,
    not_ready_because: Callable[[], str | None],
    health: Callable[[], dict[str, JsonValue]],
) -> None:
    @app.get("/health", tags=["probes"])
    async def get_health() -> dict[str, JsonValue]:
        """Return the service's name, version and facts, to show that it is alive."""
        return {"status": "ok", "service": name, "version": __version__} | health()

    @app.get("/ready", tags=["probes"])
    async def get_ready() -> dict[str, str]:
        """Return 200 if the service can serve requests now, else 503 with the reason."""
        reason = not_ready_because()
        if reason is not None:
            raise NotReady(reason, retry_after_s=1.0)
        return {"status": "ready"}

    @app.get("/metrics", tags=["probes"])
    async def get_metrics() -> Response:
        """Return the metrics in Prometheus's text format."""
        return Response(generate_latest(app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _add_error_handlers(app: FastAPI, name: str) -> None:
    def answer(error: AssayError) -> JSONResponse:
        body = to_body(error, name, request_id()).model_dump(mode="json")
        response = JSONResponse(body, status_code=error.http_status)
        if error.retry_after_s is not None:
            response.headers["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
        return response

    @app.exception_handler(AssayError)
    async def known(_: Request, error: AssayError) -> JSONResponse:
        level = logging.INFO if isinstance(error, CallerError) else logging.WARNING
        _log.log(level, "%s: %s", type(error).__name__, error)
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return answer(describe_invalid(error))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:  # FastAPI could not parse the body
            return answer(InvalidInput(_UNREADABLE))
        kind = NotFound if error.status_code == 404 else InvalidInput
        response = answer(kind(f"{request.method} {request.url.path}: {error.detail}"))
        response.status_code = error.status_code
        return response

    @app.exception_handler(Exception)
    async def unknown(_: Request, error: Exception) -> JSONResponse:
        response = answer(InternalFault(f"{type(error).__name__}: {error}"))
        # Starlette raises the error again, and uvicorn then closes the connection; tell the client.
        response.headers["connection"] = "close"
        return response


def describe_invalid(error: RequestValidationError) -> InvalidInput:
    """Return the first error of a request, with its field, the value given and the rule broken."""
    first = error.errors()[0]
    if first["loc"] == ("body",) and first["type"] == "model_attributes_type":
        return InvalidInput(
            "the body is not a JSON object", hint="send one, with content-type: application/json"
        )
    if first["type"] == "json_invalid":
        reason, place = first.get("ctx", {}).get("error", first["msg"]), first["loc"][-1]
        return InvalidInput(f"the body is not JSON: {reason}, at character {place}")
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    message = _short(message_of(first))
    given = first.get("input")
    if isinstance(given, str | int | float | bool):
        shown = given[:_MAX_ECHO] if isinstance(given, str) else given
        message += f", not {shown!r:.80}"
    number = error.num_errors if isinstance(error, InvalidBody) else len(error.errors())
    hint = f"and {number - 1} more" if number > 1 else None
    if hint and isinstance(error, InvalidBody) and error.others:
        hint += f": {_short(', '.join(error.others))}"
    return InvalidInput(message, field=_short(where) or None, hint=hint)


def _short(text: str) -> str:
    """Return a text cut to `_MAX_ECHO` characters, with lone surrogates escaped for UTF-8."""
    if len(text) > _MAX_ECHO:
        text = f"{text[:_MAX_ECHO]}..."
    return text.encode(errors="backslashreplace").decode()
