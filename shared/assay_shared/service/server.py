"""Runs a service in a single process; a stop first finishes the requests in flight."""

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
from ipaddress import ip_address
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
#: Number of new objects that starts a collection of the youngest generation (it takes less than a
#: millisecond), and the number of collections of a generation before the next is collected.
_GC_THRESHOLDS = (10_000, 20, 20)
#: Limit on the work after the last request: sending traces, ending threads.
_LAST_S = 5.0
#: How often uvicorn ticks.
_TICK_S = 0.1


@dataclass(frozen=True)
class Address:
    """Listening address: hosts and port (0 takes a free port), or an inherited socket `fd`.

    Several hosts are separated by commas. A service in several networks listens only on the named
    addresses. `0.0.0.0,::` is every address of either family: where the machine has no IPv6, its
    hosts are left out, so that one command fits all machines.
    """

    host: str
    port: int
    fd: int | None = None

    def listeners(self) -> list[socket.socket]:
        if self.fd is not None:
            return [socket.socket(fileno=self.fd)]
        hosts = self.host.split(",")
        found: list[socket.socket] = []
        port = self.port
        try:
            for host in hosts:
                if len(hosts) > 1 and ":" in host and not _has_ipv6():
                    _log.warning("this machine has no IPv6: not listening on %s", host)
                    continue
                # Of several hosts, `::` must leave IPv4 to the others.
                found.append(bind(host, port, ipv6_only=len(hosts) > 1))
                port = found[0].getsockname()[1]  # a free port is the same on every host
        except ConfigError:
            for listener in found:
                listener.close()
            raise
        if not found:
            raise ConfigError(
                f"this machine has no IPv6, and --host {self.host} names no other address",
                hint="add 0.0.0.0 to --host",
            )
        return found


def run_service(
    name: str,
    settings_class: type[AnySettings],
    create_app: Callable[[AnySettings], FastAPI],
    address: Address,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish the requests in flight.

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
        host, port = listener.getsockname()[:2]
        _log.info("listening on http://%s:%d", f"[{host}]" if ":" in host else host, port)
        if not app.state.has_keys:
            warn_of_everyone(name, host)
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
    # Imported objects live forever: a collection walking them would delay every request by tens of
    # milliseconds.
    gc.collect()
    gc.freeze()
    # Requests make hundreds of short-lived objects: collecting every 700 takes a fifth of the time.
    gc.set_threshold(*_GC_THRESHOLDS)
    _Server(config, app.state.on_stop, limits).run(sockets=listeners)
    end_tracing()


def warn_of_everyone(name: str, host: str) -> None:
    """Warn of a service without a token that other machines reach."""
    if not ip_address(host).is_loopback:
        _log.warning("%s answers everyone who reaches it: set ASSAY_TOKEN", name)


class _Server(uvicorn.Server):
    """uvicorn server that reports the start of a stop, and closes stalled connections."""

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
            # The service's start may take minutes, so stop it now.
            self._loop.call_soon_threadsafe(self._on_stop)

    async def on_tick(self, counter: int) -> bool:
        if counter % round(SWEEP_S / _TICK_S) == 0:
            sweep(self.server_state.connections, self._limits)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        _log.info(
            "stopping: requests in flight may take %s s", self.config.timeout_graceful_shutdown
        )
        self._on_stop()
        await super().shutdown(sockets)
        _end_within(_LAST_S)


def _end_within(limit_s: float) -> None:
    """End the process after `limit_s` even if a thread is still in a long call.

    Otherwise Python would wait for the thread before ending.
    """

    def end() -> None:
        _log.warning("a thread still runs %s s after the last request; ending without it", limit_s)
        os._exit(0)

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()


def _has_ipv6() -> bool:
    """Return whether the kernel gives out sockets of IPv6: `ipv6.disable=1` takes them away."""
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close()
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            return False
        raise
    return True


def bind(host: str, port: int, *, ipv6_only: bool = False) -> socket.socket:
    """Return a listening socket; port 0 takes a free port.

    `::` takes IPv4 as well, unless `ipv6_only`.

    Raises:
        ConfigError: the port is in use, or the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}"
        ) from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, ipv6_only)
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
