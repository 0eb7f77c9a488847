"""Headers without an end, to a real service: cut off, and felt by nobody else."""

import itertools
import socket
import urllib.request
from collections.abc import Callable, Iterable, Iterator

import pytest

from assay_shared.service.connection import MAX_HEADER_BYTES
from tests.conftest import SandboxProcess


def one_endless_header() -> Iterator[bytes]:
    yield b"GET /health HTTP/1.1\r\nhost: x\r\nx-a: "
    while True:
        yield b"a" * 2**16


def endless_headers() -> Iterator[bytes]:
    yield b"GET /health HTTP/1.1\r\nhost: x\r\n"
    while True:
        yield b"x-a: " + b"b" * 500 + b"\r\n"


def an_endless_path() -> Iterator[bytes]:
    yield b"GET /"
    while True:
        yield b"p" * 2**16


def send(connection: socket.socket, parts: Iterable[bytes]) -> None:
    for part in parts:
        connection.sendall(part)


@pytest.mark.parametrize("parts", [one_endless_header, endless_headers, an_endless_path])
@pytest.mark.slow
def test_headers_without_an_end_are_cut_off(
    sandbox_process: SandboxProcess, parts: Callable[[], Iterator[bytes]]
) -> None:
    port = int(sandbox_process.url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
        pytest.raises(ConnectionError),
    ):
        send(connection, itertools.islice(parts(), 64 * 2**20 // 2**9))
    with urllib.request.urlopen(f"{sandbox_process.url}/health", timeout=20) as response:
        assert response.status == 200


@pytest.mark.parametrize("num_requests", [1, 2])
@pytest.mark.parametrize("body", [b"", b"content-length: 5\r\n\r\nhello"])
@pytest.mark.slow
def test_headers_over_the_limit_that_come_in_one_read_are_refused(
    sandbox_process: SandboxProcess, num_requests: int, body: bytes
) -> None:
    port = int(sandbox_process.url.rpartition(":")[2])
    small = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n" * (num_requests - 1)
    head = b"POST /health HTTP/1.1\r\nhost: x\r\nx-a: " + b"a" * 100_000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(small + head + (body or b"\r\n"))
        answers = b""
        while piece := connection.recv(65536):
            answers += piece
    assert b"HTTP/1.1 431 " in answers
    assert answers.count(b"HTTP/1.1 2") <= num_requests - 1


@pytest.mark.slow
def test_headers_below_the_limit_and_large_bodies_pass(sandbox_process: SandboxProcess) -> None:
    headers = {"x-a": "a" * (MAX_HEADER_BYTES // 2), "content-type": "application/json"}
    body = b'{"code": "print(len(open(0).read()))", "stdin": "' + b"x" * 2**20 + b'"}'
    request = urllib.request.Request(
        f"{sandbox_process.url}/v1/execute", data=body, headers=headers, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        assert b'"stdout":"1048576\\n"' in response.read()
