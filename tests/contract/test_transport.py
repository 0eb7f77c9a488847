"""The HTTP client of all services, in front of servers with unusual behaviour."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from assay_shared.clients.retry_after import read_retry_after
from assay_shared.clients.transport import AnswerTooLarge, BrokenAnswer, HTTPAnswer, Transport

OK = b"HTTP/1.1 200 OK\r\n"
Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(handle: Handle, max_connections: int = 4) -> AsyncIterator[Transport]:
    """Return a transport to a server with this handler of connections."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        transport = Transport(
            f"http://127.0.0.1:{port}/v1",
            max_connections=max_connections,
            max_answer_bytes=10_000,
        )
        yield transport
        transport.close()
        await asyncio.sleep(0)


def saying(*parts: bytes, then: Handle | None = None) -> Handle:
    """Return how a server answers each request of a connection with these parts."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.01)
            if then is not None:
                return await then(reader, writer)

    return handle


async def ask(transport: Transport, body: bytes | None = None, path: str = "/x") -> HTTPAnswer:
    return await transport.ask("POST", path, {}, body, connect_s=2.0, read_s=0.5, total_s=3.0)


async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


READ = {
    "in pieces": (OK[:9], OK[9:] + b"content-le", b"ngth: 2\r\n\r\nh", b"i"),
    "chunked": (OK + b"transfer-encoding: chunked\r\n\r\n1\r\nh\r\n", b"1\r\ni\r\n0\r\n\r\n"),
    "after an interim answer": (
        b"HTTP/1.1 100 Continue\r\n\r\n",
        OK + b"content-length: 2\r\n\r\nhi",
    ),
}


@pytest.mark.parametrize("parts", READ.values(), ids=READ)
async def test_answers_are_read_and_the_connection_is_kept(parts: tuple[bytes, ...]) -> None:
    connections = 0
    handle = saying(*parts)

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await handle(reader, writer)

    async with server(count) as transport:
        for _ in range(3):
            assert (await ask(transport)).content == b"hi"
    assert connections == 1


async def test_an_answer_may_end_with_its_connection() -> None:
    async with server(saying(OK + b"\r\nhi", then=close)) as transport:
        assert (await ask(transport)).content == b"hi"
        assert (await ask(transport)).content == b"hi"


BROKEN = {
    "closed at once": (),
    "half a body": (OK + b"content-length: 20\r\n\r\nhi",),
    "half a chunk": (OK + b"transfer-encoding: chunked\r\n\r\n9\r\nh",),
    "garbage": (b"\x00\xff\x16garbage\r\n\r\n",),
    "an upgrade": (b"HTTP/1.1 101 Go\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",),
    "endless headers": (OK, *(b"x: " + b"y" * 60_000 + b"\r\n",) * 9),
}


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1"], ids=["nothing", "half an answer"])
async def test_a_request_that_meets_the_closing_of_a_kept_connection_is_sent_again(
    first: bytes,
) -> None:
    """The server closes the first connection when its second request arrives."""
    num_requests: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at = len(num_requests)
        num_requests.append(0)
        while await reader.readuntil(b"\r\n\r\n"):
            num_requests[at] += 1
            if num_requests == [2]:
                writer.write(first)
                return
            writer.write(OK + b"content-length: 2\r\n\r\nhi")

    async with server(handle) as transport:
        assert (await ask(transport)).content == b"hi"
        if first:
            with pytest.raises(BrokenAnswer):
                await ask(transport)
            assert num_requests == [2], "a begun answer is not asked for again"
        else:
            assert (await ask(transport)).content == b"hi"
            assert num_requests == [2, 1]


async def test_a_new_connection_without_an_answer_is_not_tried_again() -> None:
    num_connections = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal num_connections
        num_connections += 1
        await reader.readuntil(b"\r\n\r\n")

    async with server(handle) as transport:
        with pytest.raises(BrokenAnswer, match="closed too early"):
            await ask(transport)
    assert num_connections == 1


@pytest.mark.parametrize("parts", BROKEN.values(), ids=BROKEN)
async def test_what_is_no_whole_answer_is_broken(parts: tuple[bytes, ...]) -> None:
    async with server(saying(*parts, then=close)) as transport:
        with pytest.raises(BrokenAnswer):
            await ask(transport)


async def test_an_answer_over_the_limit_is_not_read_on() -> None:
    num_sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal num_sent
        for _ in range(2000):
            writer.write(b"x" * 65536)
            await writer.drain()
            num_sent += 1

    async with server(saying(OK + b"\r\n", then=pour)) as transport:
        with pytest.raises(AnswerTooLarge, match="over 10000 bytes"):
            await ask(transport)
    assert num_sent < 1000


async def test_of_a_long_error_the_beginning_is_read() -> None:
    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2000):
            writer.write(b"x" * 65536)
            await writer.drain()

    async with server(saying(b"HTTP/1.1 500 No\r\n\r\n", then=pour)) as transport:
        answer = await ask(transport)
    assert answer.status == 500
    assert 0 < len(answer.content) <= 65536


@pytest.mark.slow
async def test_silence_ends_in_time_and_progress_does_not() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(5):
            await asyncio.sleep(0.3)
            writer.write(b"x")

    async with server(saying(OK + b"content-length: 5\r\n\r\n", then=drip)) as transport:
        assert (await ask(transport)).content == b"xxxxx"

    async def wait(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2)

    async with server(saying(OK, then=wait)) as transport:
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            await ask(transport)
        assert time.monotonic() - started < 1.5


async def test_a_large_body_arrives_whole_and_others_are_served_meanwhile() -> None:
    body = bytes(range(256)) * 40_000

    async def echo_size(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            given = await reader.readexactly(length)
            said = b"%d" % (given == body[:length] and length)
            writer.write(OK + b"content-length: %d\r\n\r\n" % len(said) + said)

    async with server(echo_size) as transport:
        large, small = await asyncio.gather(ask(transport, body), ask(transport, body[:10]))
        again = await ask(transport, body)
    assert [int(one.content) for one in (large, small, again)] == [len(body), 10, len(body)]


async def test_no_more_connections_than_allowed_are_open_at_once() -> None:
    open_now = most = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        try:
            await saying(OK + b"content-length: 0\r\n\r\n")(reader, writer)
        finally:
            open_now -= 1

    async with server(handle, max_connections=3) as transport:
        await asyncio.gather(*(ask(transport) for _ in range(20)))
    assert most == 3


async def test_a_caller_who_stops_waiting_closes_the_connection() -> None:
    ended = asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            await reader.read()
        finally:
            ended.set()

    async with server(watch) as transport:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(transport), 0.1)
        await asyncio.wait_for(ended.wait(), 1.0)


async def test_a_header_cannot_begin_another_one() -> None:
    async with server(saying(OK + b"content-length: 0\r\n\r\n")) as transport:
        with pytest.raises(ValueError, match="line breaks"):
            await transport.ask(
                "GET", "/", {"x": "a\r\nb: c"}, None, connect_s=1, read_s=1, total_s=1
            )
        assert (await ask(transport, path="/a b\r\nc: d")).status == 200


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        (" 3 ", 3.0),
        ("Sun, 22 Nov 2026 20:00:10 GMT", 10.0),
        ("Sun, 22 Nov 2026 19:00:00 GMT", 0.0),
        ("Sunday, 22-Nov-26 20:00:10 GMT", 10.0),
        ("²", None),
        ("-5", None),
        ("1e9", None),
        ("nan", None),
        ("", None),
        ("9" * 400, None),
        ("Sun, 99 Nov 2026 20:00:10 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    assert read_retry_after(text, 1795377600.0) == seconds
