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
    """Closes a connection whose headers are not over after so many bytes.

    Counted by what is read at once, so a request may have a little more.
    """

    _is_in_headers = False
    _num_bytes = 0

    def on_message_begin(self) -> None:
        self._is_in_headers, self._num_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._is_in_headers or self.transport.is_closing():
            return
        self._num_bytes += len(data)
        if self._num_bytes > MAX_HEADER_BYTES:
            self.transport.write(_ANSWER)
            self.transport.close()
