"""HTTP/1.1 client for a single address: kept connections, and a size limit on each answer.

A general client costs more than all other work of a service on a small request. This client reads
each answer whole, follows no redirect, keeps no cookies and asks for no compression.
"""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast
from urllib.parse import quote, unquote, urlsplit

import httptools

from assay_shared.clients.inflation import Uninflatable, inflate

#: Bytes of a status line, headers and the framing of a chunked body.
_MAX_FRAMING_BYTES = 256 * 2**10
#: Bytes read from an answer with an error status; the rest is dropped.
_MAX_ERROR_BYTES = 64 * 2**10
#: Shorter than the five seconds after which many servers close an idle connection.
_KEEP_S = 4.0
#: A larger body is written in pieces of this size, so that the event loop can serve other tasks.
_PIECE_BYTES = 2**18
_SAFE = "!#$%&'()*+,/:;=?@[]~"


class AnswerTooLarge(Exception):
    """An answer whose body exceeds the size limit."""


class NoConnection(OSError):
    """A failure to connect to the address."""


class BrokenAnswer(Exception):
    """A connection that ended too early, or bytes that are not HTTP."""


class NoAnswer(BrokenAnswer):
    """A connection that ended before the first byte of an answer."""


@dataclass(slots=True)
class HTTPAnswer:
    """An HTTP answer. Header names are in lower case."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""


@lru_cache(maxsize=1024)
def _quoted(path: str) -> str:
    return quote(path, safe=_SAFE)


class Transport:
    """Connections to an address: at most `max_connections` requests in flight; 0 sets no limit."""

    def __init__(self, base_url: str, *, max_connections: int, max_answer_bytes: int) -> None:
        parts = urlsplit(base_url)
        self._host = parts.hostname or ""
        self._is_tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_tls else 80)
        self._path = _quoted(parts.path.rstrip("/"))
        self._max_answer_bytes = max_answer_bytes
        self._turns = asyncio.Semaphore(max_connections) if max_connections else None
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._context: ssl.SSLContext | None = None
        self._loop = asyncio.get_running_loop()  # kept, because each lookup takes a system call
        self._head = f"Host: {parts.netloc.rpartition('@')[2]}\r\nAccept: */*\r\n"
        self._head += "Accept-Encoding: identity\r\n"
        self._authorization = ""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._authorization = f"authorization: Basic {b64encode(pair.encode()).decode()}\r\n"

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._open):
            connection.close()
        self._idle.clear()

    async def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        connect_s: float,
        read_s: float,
        total_s: float,
    ) -> HTTPAnswer:
        """Send a request and return its answer.

        A kept connection can be closed by the server while the request is on its way. The request
        is then sent once more, on a new connection.

        Raises:
            TimeoutError: a time limit is exceeded; `read_s` bounds the silence between two reads.
            OSError: connecting failed.
            BrokenAnswer: the connection broke, or the answer is not HTTP.
            AnswerTooLarge: the body exceeds the size limit.
            Uninflatable: the body is compressed and cannot be unpacked within the size limit.
            ValueError: a header holds a line break.
        """
        ends_at = self._loop.time() + total_s
        request = self._write(method, path, headers, body)
        if self._turns is None:
            return await self._ask(request, body, connect_s, read_s, ends_at)
        if self._turns.locked():
            async with asyncio.timeout_at(ends_at):
                await self._turns.acquire()
        else:
            await self._turns.acquire()
        try:
            return await self._ask(request, body, connect_s, read_s, ends_at)
        finally:
            self._turns.release()

    async def _ask(
        self, request: bytes, body: bytes | None, connect_s: float, read_s: float, ends_at: float
    ) -> HTTPAnswer:
        connection, answer = await self._answer(request, body, connect_s, read_s, ends_at)
        if connection.is_reusable:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
        coding = answer.headers.get("content-encoding")
        if coding is not None:
            try:
                answer.content = inflate(answer.content, coding, self._max_answer_bytes)
            except Uninflatable:
                if answer.status < 400:
                    raise
                answer.content = b""  # the status is enough to report the error
        return answer

    async def _answer(
        self, request: bytes, body: bytes | None, connect_s: float, read_s: float, ends_at: float
    ) -> "tuple[_Connection, HTTPAnswer]":
        """Send a request on a kept connection, or on a new one if the server has closed it."""
        kept = self._take()
        if kept is not None:
            with suppress(NoAnswer):
                return kept, await kept.ask(request, body, read_s, ends_at)
        new = await self._connect(connect_s, ends_at)
        return new, await new.ask(request, body, read_s, ends_at)

    def _write(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        lines = [f"{method} {self._path}{_quoted(path)} HTTP/1.1\r\n{self._head}"]
        for name, value in headers.items():
            if "\r" in value or "\n" in value or "\0" in value:
                raise ValueError(f"the header {name} must not hold line breaks")
            lines.append(f"{name}: {value}\r\n")
        if self._authorization and "authorization" not in headers:
            lines.append(self._authorization)
        if body is not None or method not in ("GET", "HEAD"):
            lines.append(f"content-length: {len(body or b'')}\r\n")
        lines.append("\r\n")
        return "".join(lines).encode()

    def _take(self) -> "_Connection | None":
        """Return the most recently used idle connection, or None if all have expired."""
        now = self._loop.time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and now - connection.idle_since < _KEEP_S:
                return connection
            connection.close()
        return None

    async def _connect(self, connect_s: float, ends_at: float) -> "_Connection":
        loop = self._loop
        if self._is_tls and self._context is None:
            self._context = ssl.create_default_context()
        try:
            async with asyncio.timeout_at(min(loop.time() + connect_s, ends_at)):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._open, self._max_answer_bytes),
                    self._host,
                    self._port,
                    ssl=self._context,
                )
        except TimeoutError:
            raise
        except OSError as error:
            raise NoConnection(error.errno, error.strerror or str(error)) from error
        return connection


class _Connection(asyncio.Protocol):
    """One connection and its current request."""

    def __init__(self, open_: "set[_Connection]", max_bytes: int) -> None:
        self._open = open_
        self._max_bytes = max_bytes
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer = HTTPAnswer()
        self._whole: asyncio.Future[HTTPAnswer] | None = None
        self._may_write: asyncio.Future[None] | None = None
        self._chunks: list[bytes] = []
        self._num_bytes = 0
        self._num_framing = 0
        self._has_headers = False
        self._heard_at = 0.0
        self.is_reusable = False
        self.idle_since = 0.0

    async def ask(
        self, request: bytes, body: bytes | None, read_s: float, ends_at: float
    ) -> HTTPAnswer:
        """Send a request and return its answer; any error closes the connection."""
        self.is_reusable = False
        if self._transport is None or self._transport.is_closing():
            raise NoAnswer("the connection was closed")
        self._num_framing, self._heard_at = 0, self._loop.time()
        self._whole = self._loop.create_future()
        due = min(self._heard_at + read_s, ends_at)
        self._timer = self._loop.call_at(due, self._look, read_s, ends_at)
        try:
            if body is None or len(body) <= _PIECE_BYTES:
                self._transport.write(request + (body or b""))
            else:
                await self._write_pieces(request, memoryview(body))
            return await self._whole
        finally:
            self._timer.cancel()
            self._whole = None
            if not self.is_reusable:
                self.close()

    async def _write_pieces(self, request: bytes, body: memoryview) -> None:
        assert self._transport is not None
        assert self._whole is not None
        self._transport.write(request)
        for start in range(0, len(body), _PIECE_BYTES):
            if self._may_write is not None:
                turns: set[asyncio.Future[Any]] = {self._may_write, self._whole}
                await asyncio.wait(turns, return_when=asyncio.FIRST_COMPLETED)
            if self._whole.done():  # the server answered early, or the request failed
                self.is_reusable = False
                return
            self._transport.write(body[start : start + _PIECE_BYTES])
            self._heard_at = self._loop.time()

    def _look(self, read_s: float, ends_at: float) -> None:
        """Fail the request if its time is over; else schedule the next check."""
        now = self._loop.time()
        due = min(self._heard_at + read_s, ends_at)
        if now >= due:
            self._fail(TimeoutError())
        else:
            self._timer = self._loop.call_at(due, self._look, read_s, ends_at)

    def close(self) -> None:
        self.is_reusable = False
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: Exception) -> None:
        if self._whole is not None and not self._whole.done():
            self._whole.set_exception(error)
        self.close()

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has no such base
        self._open.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._open.discard(self)
        self.resume_writing()
        self.is_reusable = False
        if self._whole is not None and not self._whole.done():
            if error is None and self._has_headers and self._ends_with_connection():
                self.on_message_complete()
            else:
                kind = BrokenAnswer if self._num_framing else NoAnswer
                self._fail(kind(f"the connection broke: {error or 'closed too early'}"))

    def pause_writing(self) -> None:
        self._may_write = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._may_write is not None and not self._may_write.done():
            self._may_write.set_result(None)
        self._may_write = None

    def data_received(self, data: bytes) -> None:
        if self._whole is None or self._whole.done():
            self.close()  # no request waits for these bytes
            return
        self._heard_at = self._loop.time()
        self._num_framing += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._whole.done():
                self._fail(BrokenAnswer(f"not HTTP: {error or type(error).__name__}"))
            return
        if self._num_framing > _MAX_FRAMING_BYTES:
            self._fail(BrokenAnswer("headers that do not end"))

    def _ends_with_connection(self) -> bool:
        headers = self._answer.headers
        return "content-length" not in headers and "transfer-encoding" not in headers

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        self._answer = HTTPAnswer()
        self._chunks, self._num_bytes, self._has_headers = [], 0, False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._answer.status = self._parser.get_status_code()
        self._has_headers = True

    def on_body(self, body: bytes) -> None:
        self._num_framing -= len(body)
        self._num_bytes += len(body)
        if self._answer.status >= 400 and self._num_bytes > _MAX_ERROR_BYTES:
            self._chunks.append(body[: _MAX_ERROR_BYTES - self._num_bytes])
            self.on_message_complete()
            self.close()
        elif self._num_bytes > self._max_bytes:
            self._fail(AnswerTooLarge(f"over {self._max_bytes} bytes"))
        else:
            self._chunks.append(body)

    def on_message_complete(self) -> None:
        answer = self._answer
        if answer.status < 200:  # an interim answer; the final one follows
            return
        if self._whole is not None and not self._whole.done():
            answer.content = b"".join(self._chunks)
            self._chunks = []
            self.is_reusable = self._parser.should_keep_alive()
            self._whole.set_result(answer)
