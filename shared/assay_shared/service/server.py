"""Running a service: one socket, one worker, a stop that finishes the work in hand."""

import asyncio
import errno
import gc
import logging
import math
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import uvicorn
from fastapi import FastAPI

from assay_shared.errors import ConfigError
from assay_shared.runtime.processes import raise_descriptor_limit
from assay_shared.service.audit import set_up_audit
from assay_shared.service.connection import SWEEP_S, Connection, ConnectionLimits, sweep
from assay_shared.settings.environment import AnySettings, read_settings
from assay_shared.telemetry.logs import set_up_logging
from assay_shared.telemetry.tracing import end_tracing, set_up_tracing

_log = logging.getLogger(__name__)
_BACKLOG = 2048
#: New objects after which the youngest are collected, in less than a millisecond; and how many
#: collections of a generation make one of the next.
_GC_THRESHOLDS = (10_000, 20, 20)
#: For what is left once all is closed: traces that are sent on, threads that end.
_LAST_S = 5.0
#: How often uvicorn ticks.
_TICK_S = 0.1


@dataclass(frozen=True)
class Address:
    """Where to listen: hosts and port (0 takes a free one), or a socket handed over as `fd`.

    Several hosts are divided by commas: a service that is in several networks listens in those
    whose addresses are named.
    """

    host: str
    port: int
    fd: int | None = None

    def listeners(self) -> list[socket.socket]:
        if self.fd is not None:
            return [socket.socket(fileno=self.fd)]
        return [bind(host, self.port) for host in self.host.split(",")]


def run_service(
    name: str,
    settings_class: type[AnySettings],
    create_app: Callable[[AnySettings], FastAPI],
    address: Address,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish the requests in hand.

    Raises:
        ConfigError: a setting, the port or the service's own configuration cannot be used.
    """
    settings = read_settings(settings_class)
    set_up_logging(name, settings.log_level)
    set_up_tracing(name, settings)
    set_up_audit(name, settings)
    raise_descriptor_limit()
    app = create_app(settings)
    listeners = address.listeners()
    for listener in listeners:
        _log.info("listening on http://%s:%d", *listener.getsockname()[:2])
    config = uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        access_log=False,
        backlog=_BACKLOG,
        timeout_keep_alive=math.ceil(settings.http_idle_s),
        timeout_graceful_shutdown=math.ceil(settings.shutdown_grace_s),
    )
    limits = ConnectionLimits(
        idle_s=settings.http_idle_s, head_s=settings.http_head_s, body_s=settings.http_body_s
    )
    # What was imported stays: a collection that walks all of it would hold up every request for
    # tens of milliseconds.
    gc.collect()
    gc.freeze()
    # Requests make hundreds of short-lived objects: collecting every 700 takes a fifth of the time.
    gc.set_threshold(*_GC_THRESHOLDS)
    _Server(config, app.state.on_stop, limits).run(sockets=listeners)
    end_tracing()


class _Server(uvicorn.Server):
    """Says when a stop begins, and ends connections that do not get on."""

    def __init__(
        self, config: uvicorn.Config, on_stop: Callable[[], None], limits: ConnectionLimits
    ) -> None:
        super().__init__(config)
        self._on_stop = on_stop
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None and not self.started:
            # What the service opens may take minutes, and nobody waits for it any more.
            self._loop.call_soon_threadsafe(self._on_stop)

    async def on_tick(self, counter: int) -> bool:
        if counter % round(SWEEP_S / _TICK_S) == 0:
            sweep(self.server_state.connections, self._limits)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        _log.info("stopping: requests in hand may take %s s", self.config.timeout_graceful_shutdown)
        self._on_stop()
        await super().shutdown(sockets)
        _end_within(_LAST_S)


def _end_within(limit_s: float) -> None:
    """End the process even if a thread that nobody waits for any more is in a long call.

    Python would wait for such a thread at its own end.
    """

    def end() -> None:
        _log.warning(
            "a thread is still at work %s s after the last request: not waited for", limit_s
        )
        os._exit(0)

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"port {port} on {host} is in use",
                hint="choose another with --port, or --port 0 for a free one",
            ) from None
        raise ConfigError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}"
        ) from None
    return listener
