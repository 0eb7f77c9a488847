"""A connection to a service: how long it may be idle, half sent or unread, and half-closed ones.

uvicorn bounds only the time between two requests, and takes the end of what a client sends for the
end of the client.
"""

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 64 * 2**10


_ANSWER = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class HeaderLimit(HttpToolsProtocol):
    """Closes a connection whose path and headers have more than so many bytes.

    They are counted as they are parsed, and as they are read: a header without an end is never
    parsed, so what is read at once may be a little more.
    """

    _is_in_headers = False
    _num_read = 0
    _num_parsed = 0

    def on_message_begin(self) -> None:
        self._is_in_headers, self._num_read, self._num_parsed = True, 0, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._num_parsed += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._num_parsed += len(name) + len(value)
        if self._num_parsed <= MAX_HEADER_BYTES:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        if self._num_parsed > MAX_HEADER_BYTES:
            self._refuse()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.transport.is_closing():
            super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if not self._is_in_headers or self.transport.is_closing():
            return
        self._num_read += len(data)
        if self._num_read > MAX_HEADER_BYTES:
            self._refuse()

    def _refuse(self) -> None:
        self.transport.write(_ANSWER)
        self.transport.close()


#: How often connections are looked at; their limits are whole multiples of it.
SWEEP_S = 1.0
_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
#: A half-closed client is asked whether it is there, first at once, then again and again.
_FIRST_LOOK_S = 0.02
_LOOK_EVERY_S = 0.5
_LOOKS_PER_PROBE = 10


@dataclass(frozen=True)
class ConnectionLimits:
    """How many seconds a connection may spend in each state without getting on."""

    #: Open, and no request has begun.
    idle_s: float
    #: From the first byte of a request's head to its end.
    head_s: float
    #: Without a byte of a request's body, or without a byte of an answer being taken.
    body_s: float


class Connection(HeaderLimit):
    """Closes connections that do not get on; answers a client that has only ended its own side."""

    #: Looks since the connection last got on. A service that was busy looks less often: it never
    #: blames a client for its own delay.
    _num_looks = 0
    _num_unsent = 0
    _is_half_closed = False

    def on_message_begin(self) -> None:
        self._num_looks = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._num_looks = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._num_looks = 0
        super().on_body(body)

    def look(self, limits: ConnectionLimits) -> None:
        """Close the connection if it has not got on for too long; to be called every `SWEEP_S`."""
        self._num_looks += 1
        waited_s = self._num_looks * SWEEP_S
        num_unsent = self.transport.get_write_buffer_size()
        if num_unsent:
            self._look_at_unsent(num_unsent, waited_s > limits.body_s)
        elif self._is_in_headers:
            self._end_if(waited_s > limits.head_s)
        elif self.cycle is None or self.cycle.response_complete:
            if waited_s > limits.idle_s:
                self.transport.close()
        elif self.cycle.more_body and not self.flow.read_paused:
            self._end_if(waited_s > limits.body_s)
        else:
            self._num_looks = 0  # the service's turn

    def _look_at_unsent(self, num_unsent: int, is_late: bool) -> None:
        if num_unsent != self._num_unsent:
            self._num_unsent, self._num_looks = num_unsent, 0
        elif is_late:
            # Else the kernel would keep megabytes for a client that takes none of them.
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
            self.transport.abort()

    def _end_if(self, is_late: bool) -> None:
        """Close a half-sent request's connection, with 408 where no answer has begun."""
        if is_late:
            if self.cycle is None or self.cycle.response_complete or not self._has_begun_answer():
                self.transport.write(_TIMED_OUT)
            self.transport.close()

    def _has_begun_answer(self) -> bool:
        return bool(self.cycle.response_started)

    def eof_received(self) -> bool | None:  # type: ignore[override]  # asyncio's has this type
        """Keep the connection while a whole request waits for its answer; else let it be closed.

        A client that has closed both sides looks the same as one that has closed its own. Only
        bytes sent to it tell them apart: the first one's kernel answers with a reset. So an interim
        answer is sent, which HTTP/1.1 allows at any time before the final one.
        """
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body or self._is_in_headers:
            return None
        cycle.keep_alive = False
        self._is_half_closed = True
        self._probe()
        self.loop.call_later(_FIRST_LOOK_S, self._look_at_peer, 1)
        return True

    def _probe(self) -> None:
        # A client of HTTP/1.0 knows no interim answer; bytes of a queued one's must not mix.
        may_probe = not self.pipeline and not self.cycle.response_started
        if may_probe and self.cycle.scope["http_version"] == "1.1":
            self.transport.write(_INTERIM)

    def _look_at_peer(self, number: int) -> None:
        """End the connection if the client's side has been reset; else look again later."""
        if self.transport.is_closing() or self.cycle.response_complete:
            return
        connection = self.transport.get_extra_info("socket")
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
            return
        if number % _LOOKS_PER_PROBE == 0:
            self._probe()
        self.loop.call_later(_LOOK_EVERY_S, self._look_at_peer, number + 1)


def sweep(connections: Iterable[object], limits: ConnectionLimits) -> None:
    """Look at all connections; the whole costs about a microsecond for each."""
    for connection in list(connections):
        if isinstance(connection, Connection):
            connection.look(limits)
