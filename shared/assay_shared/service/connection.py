"""Limits on connections to a service: idle, half sent, unread, half closed, or large headers.

uvicorn limits only the time between two requests. If a client closes its sending side, uvicorn
treats the client as gone.
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
    """Protocol that closes a connection if path and headers exceed `MAX_HEADER_BYTES`.

    Bytes are counted both when parsed and when read, because an endless header is never parsed.
    The check follows each read, so a read may exceed the limit a little.
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


#: Seconds between two checks of the connections; limits are whole multiples of it.
SWEEP_S = 1.0
_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
#: Timing of the checks on a half-closed client: the first, later ones, and checks per probe.
_FIRST_LOOK_S = 0.02
_LOOK_EVERY_S = 0.5
_LOOKS_PER_PROBE = 10


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits on the seconds a connection may spend in each state without progress."""

    #: Open, without a request.
    idle_s: float
    #: From the first byte of a request's head to its end.
    head_s: float
    #: Without receiving a byte of a request's body, or the client taking a byte of an answer.
    body_s: float


class Connection(HeaderLimit):
    """Protocol that closes stalled connections, and still answers a client that half closed."""

    #: Checks since the connection last made progress. A busy service checks less often, so it
    #: never blames a client for its own delay.
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
        """Close the connection if it has made no progress for too long; call every `SWEEP_S`."""
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
            self._num_looks = 0  # the service is working on its answer

    def _look_at_unsent(self, num_unsent: int, is_late: bool) -> None:
        if num_unsent != self._num_unsent:
            self._num_unsent, self._num_looks = num_unsent, 0
        elif is_late:
            # Otherwise the kernel would keep megabytes for a client that does not read them.
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
            self.transport.abort()

    def _end_if(self, is_late: bool) -> None:
        """Close the connection of a half-sent request if late; send 408 unless an answer began."""
        if is_late:
            if self.cycle is None or self.cycle.response_complete or not self._has_begun_answer():
                self.transport.write(_TIMED_OUT)
            self.transport.close()

    def _has_begun_answer(self) -> bool:
        return bool(self.cycle.response_started)

    def eof_received(self) -> bool | None:  # type: ignore[override]  # asyncio's has this type
        """Keep the connection open if a complete request still waits for its answer.

        At first, a full close looks the same as a half close. Only sending bytes tells them apart:
        after a full close, the client's kernel answers with a reset. The service therefore sends an
        interim answer; HTTP/1.1 allows this at any time before the final answer.
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
        # HTTP/1.0 has no interim answers. With queued requests or a begun answer, the probe's bytes
        # could end up inside another answer.
        may_probe = not self.pipeline and not self.cycle.response_started
        if may_probe and self.cycle.scope["http_version"] == "1.1":
            self.transport.write(_INTERIM)

    def _look_at_peer(self, number: int) -> None:
        """Abort the connection if the client has reset it; else schedule the next check."""
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
    """Check all connections; a check costs about a microsecond."""
    for connection in list(connections):
        if isinstance(connection, Connection):
            connection.look(limits)
