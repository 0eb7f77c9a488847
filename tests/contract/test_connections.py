"""Connections to a real service: idle, half sent, unread and half-closed ones."""

import http.client
import json
import socket
import struct
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import SandboxProcess, running_sandbox

SHORT_S = "1"
HEAD = b"POST /v1/execute HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def service() -> Iterator[SandboxProcess]:
    limits = dict.fromkeys(("ASSAY_HTTP_IDLE_S", "ASSAY_HTTP_HEAD_S", "ASSAY_HTTP_BODY_S"), SHORT_S)
    with running_sandbox(**limits, ASSAY_SANDBOX_MINIMUM_ISOLATION="fallback") as process:
        yield process


def connect(service: SandboxProcess) -> socket.socket:
    port = int(service.url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def request(code: str, version: str = "1.1", **limits: float) -> bytes:
    body = json.dumps({"code": code, "limits": limits}).encode()
    head = HEAD.replace(b"HTTP/1.1", b"HTTP/" + version.encode())
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"\r\n", b""),
        (b"GET /hea", b"HTTP/1.1 408 "),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: ", b"HTTP/1.1 408 "),
        (HEAD + b"content-length: 1000\r\n\r\n" + b'{"code": ', b"HTTP/1.1 408 "),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nabc", b"HTTP/1.1 408 "),
    ],
)
@pytest.mark.slow
def test_what_does_not_get_on_is_closed(
    service: SandboxProcess, sent: bytes, answer: bytes
) -> None:
    with connect(service) as connection:
        connection.sendall(sent)
        began = time.monotonic()
        said = read_all(connection)
    assert said.startswith(answer)
    assert bool(said) is bool(answer)
    assert 0.5 < time.monotonic() - began < 10


@pytest.mark.slow
def test_a_dripping_head_is_closed_all_the_same(service: SandboxProcess) -> None:
    with connect(service) as connection:
        began = time.monotonic()
        connection.sendall(b"GET /health HTTP/1.1\r\nx-a: ")
        with pytest.raises(ConnectionError):
            drip(connection, until=began + 20)
    assert time.monotonic() - began < 10


@pytest.mark.slow
def test_an_answered_connection_is_closed_when_it_is_idle(service: SandboxProcess) -> None:
    with connect(service) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert read_all(connection).count(b"HTTP/1.1 200 OK") == 1


@pytest.mark.slow
def test_an_answer_that_nobody_takes_is_given_up(service: SandboxProcess) -> None:
    code = "import os\nfor _ in range(300): os.write(1, b'x' * 100_000)"
    with connect(service) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request(code, output_bytes=64 * 2**20))
        time.sleep(6)
        with pytest.raises(ConnectionError):
            read_all(connection)


@pytest.mark.slow
def test_a_slow_body_and_a_slow_program_are_waited_for(service: SandboxProcess) -> None:
    """The whole body takes longer than the limit, and each pause a tenth of it."""
    head, end, body = request("import time; time.sleep(4); print('slow')").partition(b"\r\n\r\n")
    with connect(service) as connection:
        connection.sendall(head + end)
        for at in range(0, len(body), 5):
            connection.sendall(body[at : at + 5])
            time.sleep(0.1)
        assert b"slow" in read_all(connection)


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("sleep_s", [0, 0.3, 3])
@pytest.mark.slow
def test_a_half_closed_request_gets_its_answer(
    service: SandboxProcess, version: str, sleep_s: float
) -> None:
    with connect(service) as connection:
        code = f"import time; time.sleep({sleep_s}); print('answered')"
        connection.sendall(request(code, version))
        connection.shutdown(socket.SHUT_WR)
        said = read_all(connection)
    assert b" 200 OK" in said
    assert b"answered" in said
    assert (b"100 Continue" in said) <= (version == "1.1")


def test_requests_in_a_row_before_a_half_close_are_all_answered(service: SandboxProcess) -> None:
    with connect(service) as connection:
        code = "import time; time.sleep(.2); print('answered')"
        connection.sendall(request(code) * 3)
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection).count(b"answered") == 3


@pytest.mark.slow
def test_the_standard_client_understands_a_half_closed_answer(service: SandboxProcess) -> None:
    with closing(http.client.HTTPConnection(service.url.removeprefix("http://"))) as client:
        body = json.dumps({"code": "import time; time.sleep(1); print('answered')"})
        client.request("POST", "/v1/execute", body, {"content-type": "application/json"})
        assert client.sock is not None
        client.sock.shutdown(socket.SHUT_WR)
        answer = client.getresponse()
        assert answer.status == 200
        assert b"answered" in answer.read()


@pytest.mark.parametrize("reset", [False, True])
def test_the_work_of_a_client_that_is_gone_ends(service: SandboxProcess, reset: bool) -> None:
    connection = connect(service)
    connection.sendall(request("import time; time.sleep(14)"))
    time.sleep(0.5)
    assert num_in_flight(service) == 1
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    began = time.monotonic()
    while num_in_flight(service) and time.monotonic() - began < 10:
        time.sleep(0.02)
    assert time.monotonic() - began < 2


@pytest.mark.slow
def test_the_work_ends_if_a_half_closed_client_goes_later(service: SandboxProcess) -> None:
    connection = connect(service)
    connection.sendall(request("import time; time.sleep(14)"))
    connection.shutdown(socket.SHUT_WR)
    time.sleep(1)
    assert num_in_flight(service) == 1
    connection.close()
    began = time.monotonic()
    while num_in_flight(service) and time.monotonic() - began < 13:
        time.sleep(0.1)
    assert time.monotonic() - began < 9


def drip(connection: socket.socket, until: float) -> None:
    while time.monotonic() < until:
        connection.sendall(b"a")
        time.sleep(0.1)


def num_in_flight(service: SandboxProcess) -> int:
    """Return the number of requests in flight, without the asking request."""
    with urllib.request.urlopen(f"{service.url}/metrics", timeout=20) as response:
        lines = response.read().decode().splitlines()
    (value,) = (
        line.split()[-1] for line in lines if line.startswith("assay_http_requests_in_flight")
    )
    return int(float(value)) - 1
