"""Listening addresses of a service."""

import socket

import pytest

from assay_shared.errors import ConfigError
from assay_shared.service.server import Address


def test_a_service_listens_at_each_host_that_is_named_and_at_no_other() -> None:
    listeners = Address("127.0.0.1,127.0.0.2", 0).listeners()
    try:
        hosts = [listener.getsockname()[0] for listener in listeners]
        assert hosts == ["127.0.0.1", "127.0.0.2"]
        port = listeners[0].getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.3", port), timeout=5)
    finally:
        for listener in listeners:
            listener.close()


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is in use"):
            Address("127.0.0.1", port).listeners()
