"""Listening addresses of a service."""

import errno
import socket
from contextlib import closing, suppress

import pytest

from assay_shared.errors import ConfigError
from assay_shared.service.server import Address, warn_of_everyone


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


def reached(host: str, port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection((host, port), timeout=5):
        return True
    return False


def test_both_families_are_reached_at_one_port() -> None:
    listeners = Address("0.0.0.0,::", 0).listeners()
    (port,) = {listener.getsockname()[1] for listener in listeners}
    assert reached("127.0.0.1", port)
    assert reached("::1", port)
    for listener in listeners:
        listener.close()


def test_ipv6_alone_takes_ipv4_too_and_one_address_of_it_does_not() -> None:
    (everything,) = Address("::", 0).listeners()
    with closing(everything):
        assert reached("127.0.0.1", everything.getsockname()[1])
    (one,) = Address("::1", 0).listeners()
    with closing(one):
        port = one.getsockname()[1]
        assert reached("::1", port)
        assert not reached("127.0.0.1", port)


def test_a_machine_without_ipv6_listens_on_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoIPv6(socket.socket):
        def __init__(self, family: int = socket.AF_INET, *args: int, **more: int) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *args, **more)

    monkeypatch.setattr(socket, "socket", NoIPv6)
    (listener,) = Address("0.0.0.0,::", 0).listeners()
    with closing(listener):
        assert reached("127.0.0.1", listener.getsockname()[1])
    with pytest.raises(ConfigError, match="names no other address"):
        Address("::,::1", 0).listeners()
    with pytest.raises(ConfigError, match="cannot listen on :::0: Address family not supported"):
        Address("::", 0).listeners()


def test_no_listener_is_left_where_one_of_them_fails() -> None:
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.2 is in use"):
            Address("127.0.0.1,127.0.0.2", port).listeners()
        assert not reached("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "is_told"), [("127.0.0.1", False), ("::1", False), ("0.0.0.0", True), ("::", True)]
)
def test_a_service_without_a_token_says_that_it_answers_everyone(
    caplog: pytest.LogCaptureFixture, host: str, is_told: bool
) -> None:
    warn_of_everyone("sandbox", host)
    assert ("sandbox answers everyone" in caplog.text) is is_told
