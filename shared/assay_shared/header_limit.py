"""A cap on what a request may send before its body: uvicorn's fast parser has none.

A header that never ends would be kept, and be copied with each part that comes, before anybody has
asked for a token: tens of megabytes hold up all other requests.
"""

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
