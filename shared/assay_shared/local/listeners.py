"""Listening sockets of the services of `assay up`: at given addresses, at usual or free ports."""

import socket
from collections.abc import Callable, Collection, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from assay_shared.errors import ConfigError
from assay_shared.service.server import bind

USUAL_PORTS = {
    "inference": 8001,
    "sandbox": 8002,
    "judge": 8003,
    "reward": 8004,
    "trainer": 8005,
}
SERVICES = tuple(USUAL_PORTS)
_HOST = "127.0.0.1"


def free_listeners(services: Collection[str] = SERVICES) -> dict[str, socket.socket]:
    """Return a listening socket for each named service, at a free port."""
    return {name: bind(_HOST, 0) for name in services}


def open_listeners(
    environment: Mapping[str, str],
    on_port_taken: Callable[[str], None],
    services: Collection[str] = SERVICES,
) -> dict[str, socket.socket]:
    """Return a listening socket for each named service.

    A service listens at its ASSAY_..._URL. Without that, it listens at its usual port; if that
    port is in use, at a free port, and `on_port_taken` gets a sentence that says so.

    Raises:
        ConfigError: a given address is not of this machine, or is in use; names the variable. No
            socket is left open then.
    """
    found: dict[str, socket.socket] = {}
    try:
        for name in services:
            port = USUAL_PORTS[name]
            variable = f"ASSAY_{name.upper()}_URL"
            url = environment.get(variable)
            found[name] = _given(url, variable) if url else _usual(name, port, on_port_taken)
    except ConfigError:
        for one in found.values():
            one.close()
        raise
    return found


def url_of(listener: socket.socket) -> str:
    """Return the address at which clients reach the socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of an address of this machine.

    Raises:
        ValueError: it is not http://HOST:PORT, or the host is not this machine's loopback.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    is_loopback = host == "localhost" or (host and ip_address(host).is_loopback)
    if parts.scheme != "http" or not parts.port or parts.path not in ("", "/"):
        raise ValueError("not an address with a port")
    if not is_loopback:
        raise ValueError("not a loopback address")
    return host, parts.port


def _given(url: str, variable: str) -> socket.socket:
    try:
        host, port = address_of(url)
    except ValueError:
        raise ConfigError(
            f"assay up cannot listen at {url!r:.200}",
            field=variable,
            hint="http://127.0.0.1:PORT, or leave it unset",
        ) from None
    try:
        return bind(host, port)
    except ConfigError as error:
        hint = "name a free port, or leave it unset"
        raise ConfigError(error.message, field=variable, hint=hint) from None


def _usual(name: str, port: int, on_port_taken: Callable[[str], None]) -> socket.socket:
    try:
        return bind(_HOST, port)
    except ConfigError:
        free = bind(_HOST, 0)
        other = free.getsockname()[1]
        on_port_taken(
            f"port {port} is in use, so {name} listens at port {other}; set "
            f"ASSAY_{name.upper()}_URL=http://{_HOST}:PORT to choose one"
        )
        return free
