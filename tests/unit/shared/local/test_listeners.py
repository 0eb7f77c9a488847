"""Where the services of `assay up` listen: real sockets on the loopback."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from assay_shared.errors import ConfigError
from assay_shared.local import listeners
from assay_shared.local.listeners import free_listeners, open_listeners, url_of
from assay_shared.service.server import bind
from tests.support.ports import free_port


@pytest.fixture
def taken() -> Iterator[int]:
    """A port in use."""
    with closing(bind("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.fixture(autouse=True)
def usual_ports_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other services of this machine may have the real ones."""
    monkeypatch.setattr(listeners, "USUAL_PORTS", dict.fromkeys(listeners.USUAL_PORTS, 0))


def close(found: dict[str, socket.socket]) -> None:
    for one in found.values():
        one.close()


def test_a_given_address_is_taken() -> None:
    port = free_port()
    told: list[str] = []
    found = open_listeners({"ASSAY_JUDGE_URL": f"http://localhost:{port}"}, told.append)
    try:
        assert url_of(found["judge"]) == f"http://127.0.0.1:{port}"
        assert sorted(found) == sorted(listeners.USUAL_PORTS)
        assert told == []
    finally:
        close(found)


def test_a_given_address_in_use_is_refused_by_name(taken: int) -> None:
    with pytest.raises(
        ConfigError, match=f"ASSAY_TRAINER_URL: port {taken} .* is in use.*a free port"
    ):
        open_listeners({"ASSAY_TRAINER_URL": f"http://127.0.0.1:{taken}"}, print)


@pytest.mark.parametrize(
    "url",
    [
        "http://10.1.2.3:8001",
        "http://gpu-host:8001",
        "https://127.0.0.1:8001",
        "http://127.0.0.1",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        "http://127.0.0.1:8001/path",
        "127.0.0.1:8001",
        "http://[::1",
    ],
)
def test_an_address_that_is_not_of_this_machine_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"ASSAY_INFERENCE_URL: .*http://127\.0\.0\.1:PORT"):
        open_listeners({"ASSAY_INFERENCE_URL": url}, print)


def test_a_usual_port_in_use_is_told_with_the_variable_to_set(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(listeners.USUAL_PORTS, "reward", taken)
    told: list[str] = []
    found = open_listeners({"ASSAY_REWARD_URL": ""}, told.append)
    try:
        port = found["reward"].getsockname()[1]
        assert port != taken
        assert len(told) == 1
        assert told[0].startswith(f"port {taken} is in use, so reward listens at port {port}")
        assert "ASSAY_REWARD_URL" in told[0]
    finally:
        close(found)


def test_free_ports_differ() -> None:
    found = free_listeners()
    try:
        assert len({one.getsockname()[1] for one in found.values()}) == len(found)
    finally:
        close(found)
