"""Middleware around every request: request id, log line, metrics, size limit, disconnects.

The classes are plain ASGI, because Starlette's BaseHTTPMiddleware costs a task and a queue per
request.
"""

import asyncio
import logging
import math
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay_shared.errors import AssayError, NotReady, TooLarge, Unauthorized, to_body
from assay_shared.telemetry import propagation, tracing
from assay_shared.telemetry.context import (
    REQUEST_ID_HEADER,
    client_scope,
    new_request_id,
    request_id,
    request_scope,
)
from assay_shared.telemetry.metrics import ServiceMetrics

_log = logging.getLogger(__name__)

#: Probes and scrapers send no token; logging them would flood the log.
OPEN_PATHS = frozenset({"/health", "/ready", "/metrics"})
_MAX_ID_LENGTH = 128
#: Nginx's status for a client that closed its request; no standard defines a status for it.
_CLIENT_GONE = 499
_WATCH_AFTER_S = 0.05
_ID_HEADER = REQUEST_ID_HEADER.encode()
#: Headers that forbid browsers to guess content types, frame a page, or send its address elsewhere.
_SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
_BAGGAGE_HEADER = propagation.BAGGAGE_HEADER.encode()


def find_header(scope: Scope, name: bytes) -> str:
    """Return the first header of this lower-case name, or "" if there is none."""
    for given, value in scope["headers"]:
        if given == name:
            return str(value, "latin-1")
    return ""


class Observe:
    """ASGI middleware that gives each request an id, and counts, times and logs it.

    A caller's own request id is kept. The client is an address until a token names it. If a stop
    of the service cuts off a request, the client gets an error to say so.
    """

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics, service: str) -> None:
        self._app = app
        self._metrics = metrics
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        identifier = find_header(scope, _ID_HEADER)[:_MAX_ID_LENGTH]
        with (
            request_scope(identifier or new_request_id()),
            client_scope((scope.get("client") or ("",))[0]),
            propagation.extract(find_header(scope, _BAGGAGE_HEADER)),
        ):
            if not tracing.is_on() or scope["path"] in OPEN_PATHS:
                return await self._observed(scope, receive, send)
            with tracing.serving(scope["method"], Headers(scope=scope)) as span:
                await self._observed(scope, receive, send)
                span.rename(f"{scope['method']} {_route(scope)}")

    async def _observed(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        status, has_begun = 500, False
        self._metrics.num_in_flight += 1

        async def send_with_id(message: Message) -> None:
            nonlocal status, has_begun
            if message["type"] == "http.response.start":
                status, has_begun = message["status"], True
                own = (_ID_HEADER, (request_id() or "").encode("latin-1"))
                message["headers"] = [*message["headers"], own, *_SAFE_HEADERS]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            # Only a stopping server cancels a request, after the grace period. The client notices
            # if a begun answer breaks off; otherwise it needs an error that asks for a retry.
            if has_begun:
                raise
            error = NotReady("the service stops before this was done", retry_after_s=1.0)
            await answer_error(error, self._service, send_with_id)
        finally:
            self._metrics.num_in_flight -= 1
            self._record(scope, status, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, took_s: float) -> None:
        self._metrics.count(scope["method"], _route(scope), status, took_s)
        if scope["path"] not in OPEN_PATHS:
            _log.info(
                "%s %s %d",
                scope["method"],
                scope["path"],
                status,
                extra={"status": status, "took_s": round(took_s, 4)},
            )


def _route(scope: Scope) -> str:
    """Return the route's template; as a metric label, paths would have a value for each id."""
    return getattr(scope.get("route"), "path", "unmatched")


class CancelOnDisconnect:
    """ASGI middleware that cancels the work for a disconnected client.

    A streamed answer checks for disconnects on its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        #: Kept, because each lookup takes a system call.
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.get_running_loop()
        connection = _Connection(receive, self._loop)

        async def send_on(message: Message) -> None:
            connection.stop_watching()
            await send(message)

        try:
            await self._app(scope, connection.receive, send_on)
        except asyncio.CancelledError:
            if not connection.is_gone or connection.work.uncancel() > 0:
                raise
            # Nobody reads this answer; it sets the status for the metrics.
            await send({"type": "http.response.start", "status": _CLIENT_GONE, "headers": []})
            await send({"type": "http.response.body"})
        finally:
            connection.stop_watching()


class _Connection:
    """Watcher of a request's connection; cancels the request's task when the client disconnects."""

    def __init__(self, receive: Receive, loop: asyncio.AbstractEventLoop) -> None:
        self._receive = receive
        self._loop = loop
        work = asyncio.current_task(loop)
        assert work is not None
        self.work = work
        self.is_gone = False
        self._watcher: asyncio.Task[None] | asyncio.TimerHandle | None = None

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            # Most requests are answered at once, and need no watching task.
            self._watcher = self._loop.call_later(_WATCH_AFTER_S, self._start)
        return message

    def _start(self) -> None:
        self._watcher = self._loop.create_task(self._watch())

    async def _watch(self) -> None:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.is_gone = True
            self.work.cancel()

    def stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None  # the task refers to this object: avoids a reference cycle


class BodyLimit:
    """ASGI middleware that refuses a body over the limit, by its announced or counted length."""

    def __init__(self, app: ASGIApp, limit_bytes: int, service: str) -> None:
        self._app = app
        self._limit_bytes = limit_bytes
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        announced = find_header(scope, b"content-length")
        if announced.isdigit() and int(announced) > self._limit_bytes:
            return await answer_error(self._too_large(), self._service, send)
        num_read = 0

        async def counted() -> Message:
            nonlocal num_read
            message = await receive()
            num_read += len(message.get("body", b""))
            if num_read > self._limit_bytes:
                raise self._too_large()
            return message

        async def answer(message: Message) -> None:
            # FastAPI turns an error raised while it reads a body into its own 400.
            if num_read <= self._limit_bytes:
                await send(message)
            elif message["type"] == "http.response.start":
                await answer_error(self._too_large(), self._service, send)

        await self._app(scope, counted, answer)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body is over {self._limit_bytes} bytes")


async def answer_error(error: AssayError, service: str, send: Send) -> None:
    """Send `error` as the whole answer."""
    body = to_body(error, service, request_id()).model_dump_json().encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after_s))))
    if isinstance(error, Unauthorized):
        # Chromium reads only one challenge per header.
        headers.append((b"www-authenticate", b'Basic realm="assay", charset="UTF-8"'))
        headers.append((b"www-authenticate", b'Bearer realm="assay"'))
    await send({"type": "http.response.start", "status": error.http_status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
