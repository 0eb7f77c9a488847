"""Promises of every service over real HTTP: probes, ids, errors, token, limits, a clean stop."""

import asyncio
import os
import re
import signal
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, TypeAdapter

from assay_shared.clients import RetryBudget, SandboxClient, ServiceClient, Timeouts
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import (
    AssayError,
    Forbidden,
    InternalFault,
    InvalidInput,
    NotFound,
    NotReady,
    Overloaded,
    Refused,
    TimedOut,
    TooLarge,
    Unauthorized,
    Unreachable,
)
from assay_shared.service.app import create_service
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import ExecutionRequest
from tests.conftest import SandboxProcess, Serve, wait_until

ANY = TypeAdapter(dict[str, object])


class Body(BaseModel):
    number: int = Field(gt=0)
    text: str = ""


class Script:
    """The next answers: errors to raise first, then success."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.num_calls = 0
        self.ready = True


@pytest.fixture
def script() -> Script:
    return Script()


def make_app(script: Script, **settings: object) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield

    app = create_service(
        "scripted",
        ServiceSettings.model_validate(settings),
        lifespan,
        not_ready_because=lambda: None if script.ready else "still loading",
        health=lambda: {"colour": "blue"},
    )

    @app.post("/v1/echo")
    async def echo(body: Body) -> dict[str, object]:
        script.num_calls += 1
        if script.errors:
            raise script.errors.pop(0)
        return {"number": body.number, "length": len(body.text)}

    return app


class ScriptedClient(ServiceClient):
    service = "scripted"

    async def echo(self, number: int, text: str = "") -> dict[str, object]:
        body = Body.model_construct(number=number, text=text)
        return await self._call("POST", "/v1/echo", body, ANY)


async def get(url: str, **headers: str) -> tuple[int, str, Mapping[str, str]]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status, await response.text(), response.headers


async def test_probes_tell_alive_from_ready(serve: Serve, script: Script) -> None:
    url = serve(make_app(script))
    async with ScriptedClient(url, retry=NO_RETRY) as client:
        health = await client.health()
        assert health == {
            "status": "ok",
            "service": "scripted",
            "version": "0.1.0",
            "colour": "blue",
        }
        await client.ready()
        script.ready = False
        with pytest.raises(NotReady, match="still loading"):
            await client.ready()
        assert (await client.health())["status"] == "ok"


async def test_metrics_count_requests_by_route_and_status(serve: Serve, script: Script) -> None:
    url = serve(make_app(script))
    async with ScriptedClient(url, retry=NO_RETRY) as client:
        await client.echo(1)
        with pytest.raises(InvalidInput):
            await client.echo(-1)
        with pytest.raises(NotFound):
            await client._call("GET", "/v1/nowhere/123", None, ANY)
    _, text, _ = await get(url + "/metrics")
    assert 'assay_http_requests_total{method="POST",route="/v1/echo",status="200"} 1.0' in text
    assert 'route="/v1/echo",status="422"} 1.0' in text
    assert 'route="unmatched",status="404"} 1.0' in text
    assert "/v1/nowhere" not in text, "paths would make a series each"


async def test_a_request_keeps_its_callers_id(serve: Serve, script: Script) -> None:
    url = serve(make_app(script))
    _, _, headers = await get(url + "/health", **{"x-request-id": "mine"})
    assert headers["x-request-id"] == "mine"
    _, _, headers = await get(url + "/health")
    assert len(headers["x-request-id"]) == 32


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is not JSON: Expecting property name .*, at character 1"),
        (b"{}", "number: Field required"),
        (b'{"number": 0}', "number: Input should be greater than 0, not 0"),
        (b'{"number": "x", "text": 3}', "number: .*unable to parse.*, not 'x' .and 1 more."),
        (b'"text"', "None: the body is not a JSON object .send one, with content-type"),
    ],
)
async def test_a_wrong_body_is_told_what_would_be_right(
    serve: Serve, script: Script, body: bytes, message: str
) -> None:
    url = serve(make_app(script))
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            url + "/v1/echo", data=body, headers={"content-type": "application/json"}
        ) as response,
    ):
        assert response.status == 422
        detail = (await response.json())["error"]
    shown = f"{detail['param']}: {detail['message']} ({detail['hint']})"
    assert re.search(message, shown), shown
    assert detail["type"] == "InvalidInput"
    assert detail["retryable"] is False


async def test_errors_arrive_as_what_they_were(serve: Serve, script: Script) -> None:
    url = serve(make_app(script))
    async with ScriptedClient(url, retry=NO_RETRY) as client:
        for error in (Overloaded("full", retry_after_s=2.0), NotFound("none"), TimedOut("late")):
            script.errors = [error]
            with pytest.raises(type(error), match=str(error)) as raised:
                await client.echo(1)
            assert raised.value.service == "scripted"
            assert raised.value.retry_after_s == error.retry_after_s


async def test_a_bug_is_a_500_in_our_shape(serve: Serve, script: Script) -> None:
    url = serve(make_app(script))
    async with ScriptedClient(url, retry=NO_RETRY) as client:
        script.errors = [ZeroDivisionError("oops")]
        with pytest.raises(InternalFault, match="ZeroDivisionError: oops"):
            await client.echo(1)


async def test_the_token_is_asked_for_everywhere_but_at_the_probes(
    serve: Serve, script: Script
) -> None:
    url = serve(make_app(script, token="open-sesame"))
    for path in ("/health", "/ready", "/metrics"):
        assert (await get(url + path))[0] == 200
    assert (await get(url + "/docs"))[0] == 401
    async with ScriptedClient(url, token="open-sesame") as client:
        assert (await client.echo(1))["number"] == 1
    for wrong in (None, "open-sesam", "open-sesame2", ""):
        async with ScriptedClient(url, token=wrong) as client:
            with pytest.raises(Unauthorized, match="set ASSAY_SCRIPTED_TOKEN or ASSAY_TOKEN"):
                await client.echo(1)
    assert script.num_calls == 1


async def test_a_body_over_the_limit_is_refused_announced_or_not(
    serve: Serve, script: Script
) -> None:
    url = serve(make_app(script, body_limit_bytes=10_000))
    async with ScriptedClient(url) as client:
        assert (await client.echo(1, "x" * 9_000))["length"] == 9_000
        with pytest.raises(TooLarge, match="over 10000 bytes"):
            await client.echo(1, "x" * 10_000)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 1_000

    async with aiohttp.ClientSession() as session:
        headers = {"content-type": "application/json"}
        async with session.post(url + "/v1/echo", data=chunks(), headers=headers) as response:
            assert response.status == 413
    assert script.num_calls == 1


# The client


async def test_retryable_errors_are_retried_and_others_are_not(
    serve: Serve, script: Script
) -> None:
    url = serve(make_app(script))
    retry = RetryBudget(attempts=4, first_wait_s=0.01, max_wait_s=0.02)
    async with ScriptedClient(url, retry=retry) as client:
        script.errors = [Overloaded("full"), NotReady("soon"), TimedOut("late")]
        assert (await client.echo(3))["number"] == 3
        assert script.num_calls == 4
        script.errors = [Overloaded("full") for _ in range(9)]
        with pytest.raises(Overloaded) as raised:
            await client.echo(3)
        assert raised.value.attempts == 4
        script.errors, script.num_calls = [InvalidInput("no")], 0
        with pytest.raises(InvalidInput):
            await client.echo(3)
        assert script.num_calls == 1


async def test_retry_after_is_waited_for(serve: Serve, script: Script) -> None:
    url = serve(make_app(script))
    loop = asyncio.get_running_loop()
    async with ScriptedClient(
        url, retry=RetryBudget(first_wait_s=0.001, max_wait_s=0.002)
    ) as client:
        script.errors = [Overloaded("full", retry_after_s=0.4)]
        started = loop.time()
        await client.echo(1)
        assert loop.time() - started >= 0.4


async def test_the_budget_of_time_ends_the_retries() -> None:
    retry = RetryBudget(attempts=1000, total_s=0.3, first_wait_s=0.05, max_wait_s=0.05)
    loop = asyncio.get_running_loop()
    async with ScriptedClient("http://127.0.0.1:9", retry=retry) as client:
        started = loop.time()
        with pytest.raises(Unreachable, match="127.0.0.1:9") as raised:
            await client.echo(1)
        assert loop.time() - started < 2
    assert raised.value.attempts > 1
    assert raised.value.service == "scripted"


async def test_a_service_that_is_down_is_told_in_a_second() -> None:
    """Nobody has been there yet: it is not about to come back."""
    retry = RetryBudget(total_s=30, absent_s=0.5)
    loop = asyncio.get_running_loop()
    async with ScriptedClient("http://127.0.0.1:9", retry=retry) as client:
        started = loop.time()
        with pytest.raises(Refused, match="no scripted service at http://127.0.0.1:9") as raised:
            await client.echo(1)
        assert loop.time() - started < 1.5
    assert raised.value.hint == "start it, or set ASSAY_SCRIPTED_URL"
    assert raised.value.retryable


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a request, in a server to be closed and started again at its port."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
    writer.close()


async def test_a_service_that_restarts_is_waited_for() -> None:
    """It has answered before: refused connections are tried for the whole budget."""

    retry = RetryBudget(attempts=1000, total_s=30, first_wait_s=0.05, max_wait_s=0.1, absent_s=0.1)
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with ScriptedClient(f"http://127.0.0.1:{port}", retry=retry) as client:
        await client.echo(1)
        server.close()
        asking = asyncio.create_task(client.echo(2))
        await asyncio.sleep(0.7)
        assert not asking.done()
        server = await asyncio.start_server(answer, "127.0.0.1", port)
        assert await asking == {}
        server.close()


@pytest.mark.slow
async def test_a_service_that_stays_down_is_waited_for_once() -> None:
    """The first request spends the budget; later requests fail within a second."""

    retry = RetryBudget(attempts=1000, total_s=1.5, first_wait_s=0.05, max_wait_s=0.1, absent_s=0.1)
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with ScriptedClient(f"http://127.0.0.1:{port}", retry=retry) as client:
        await client.echo(1)
        server.close()
        for least_s, most_s in ((1.2, 5.0), (0.0, 1.0)):
            started = loop.time()
            with pytest.raises(Refused):
                await client.echo(2)
            assert least_s <= loop.time() - started < most_s


RawAnswer = bytes | None
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (None, TimedOut),  # silence
        (b"", Unreachable),  # closed at once
        (OK + b"{", Unreachable),  # cut off
        (OK + b"[]", InternalFault),  # not what was asked for
        (b"garbage\r\n\r\n", Unreachable),
        (b"HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nbusy", Overloaded),
        (b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", NotReady),
        (b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", InternalFault),
        (b"HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n", InvalidInput),
        (b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n", Unauthorized),
        (b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n", Forbidden),
    ],
)
async def test_whatever_a_neighbour_does_is_a_typed_error(
    answer: RawAnswer, kind: type[AssayError]
) -> None:
    with misbehaving_server(answer) as url:
        limits = Timeouts(connect_s=1, read_s=0.3, total_s=1)
        async with ScriptedClient(url, timeouts=limits, retry=NO_RETRY) as client:
            with pytest.raises(kind) as raised:
                await client.echo(1)
    assert type(raised.value) is kind
    if kind is Overloaded:
        assert raised.value.retry_after_s == 7


@contextmanager
def misbehaving_server(answer: RawAnswer) -> Iterator[str]:
    """Read a request and send these bytes, or nothing at all until the block ends."""
    over = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while b"\r\n\r\n" not in connection.recv(65536):
                pass
            if answer is None:
                over.wait()
            else:
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield "http://{}:{}".format(*listener.getsockname())
        over.set()
        thread.join(timeout=5)


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(InvalidInput, match="scripted_url: 'localhost:1' is not an http address"):
        ScriptedClient("localhost:1")


# A process


@pytest.mark.slow
async def test_a_stopping_service_finishes_the_work_in_hand(
    sandbox_process: SandboxProcess,
) -> None:
    process, url = sandbox_process
    async with SandboxClient(url, retry=RetryBudget(attempts=100, max_wait_s=0.2)) as client:
        await client.health()
        slow = ExecutionRequest(code="import time\ntime.sleep(1.5)\nprint('whole')")
        work = asyncio.create_task(client.execute(slow))
        await asyncio.sleep(0.7)
        os.kill(process.pid, signal.SIGTERM)
        assert (await work).stdout == "whole\n"
    wait_until(lambda: process.poll() is not None, "the service to end", timeout_s=10)
    assert process.returncode in (0, -signal.SIGTERM)


@pytest.mark.slow
async def test_a_streamed_answer_is_whole_where_work_ends_with_its_client(serve: Serve) -> None:
    ended: list[str] = []

    @asynccontextmanager
    async def nothing(_: FastAPI) -> AsyncIterator[None]:
        yield

    app = create_service("streams", ServiceSettings(), nothing, cancel_on_disconnect=True)

    async def parts(number: int) -> AsyncIterator[str]:
        try:
            for part in range(number):
                await asyncio.sleep(0.03)  # the connection is watched by then
                yield f"{part} "
        finally:
            ended.append("stream")

    @app.get("/stream/{number}")
    async def stream(number: int) -> StreamingResponse:
        await asyncio.sleep(0.1)
        return StreamingResponse(parts(number))

    async with aiohttp.ClientSession(serve(app), timeout=aiohttp.ClientTimeout(30)) as session:
        for _ in range(5):  # over one connection, which stays in order
            async with session.get("/stream/4") as response:
                assert await response.text() == "0 1 2 3 "
        async with session.get("/stream/1000") as response:
            await response.content.readany()
            response.close()
    async with asyncio.timeout(20):
        while len(ended) < 6:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
