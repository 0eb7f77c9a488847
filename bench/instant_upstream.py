"""An OpenAI-compatible endpoint with the same verdict for all, at once or after a delay.

    python bench/instant_upstream.py --port 9000 --delay-ms 0

It is a bare protocol: a slower endpoint would hide the cost of the services in front of it. GET
/seen returns the number of completions so far, and the last request.
"""

import argparse
import asyncio
import json
import re
import socket
from pathlib import Path
from typing import cast

import uvloop

from assay_shared.runtime.processes import tie_to_parent

_MODEL = "gpt-4o-mini"
_VERDICT = json.dumps({"verdict": "CORRECT", "reason": "It says the same as the reference."})
_COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": _MODEL,
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": _VERDICT},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 200, "completion_tokens": 20, "total_tokens": 220},
}
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_MAX_REQUEST_BYTES = 2**20


def response(content: bytes) -> bytes:
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    return head.format(len(content)).encode() + content


_ANSWER = response(json.dumps(_COMPLETION).encode())


class Seen:
    """The requests seen over all connections: their number, and the last body."""

    count = 0
    last = b"null"

    def answer(self) -> bytes:
        return response(b'{"count": %d, "last": %s}' % (self.count, self.last))


class Connection(asyncio.Protocol):
    """Answers each complete request of a kept-alive connection."""

    def __init__(self, delay_s: float, seen: Seen, answer: bytes) -> None:
        self._delay_s = delay_s
        self._response = answer
        self._seen = seen
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while bounds := self._bounds_of_body():
            begin, end = bounds
            if self._received.startswith(b"GET /seen "):
                self._transport.write(self._seen.answer())
            else:
                self._seen.count += 1
                self._seen.last = self._received[begin:end]
                self._answer()
            self._received = self._received[end:]
        if len(self._received) > _MAX_REQUEST_BYTES:
            self._transport.abort()

    def _bounds_of_body(self) -> tuple[int, int] | None:
        """Return the bounds of the first request's body; None until the request is complete."""
        begin = self._received.find(b"\r\n\r\n") + 4
        if begin < 4:
            return None
        length = _LENGTH.search(self._received, 0, begin)
        end = begin + (int(length.group(1)) if length else 0)
        return (begin, end) if end <= len(self._received) else None

    def _answer(self) -> None:
        if self._delay_s:
            asyncio.get_running_loop().call_later(
                self._delay_s, self._transport.write, self._response
            )
        else:
            self._transport.write(self._response)


async def serve(port: int, delay_s: float, answer: bytes) -> None:
    seen = Seen()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(delay_s, seen, answer), "127.0.0.1", port, backlog=2048
    )
    listener: socket.socket = server.sockets[0]
    print("listening on http://{}:{}".format(*listener.getsockname()), flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--reply", type=Path, help="file with another body than a verdict")
    arguments = parser.parse_args()
    tie_to_parent()
    answer = response(arguments.reply.read_bytes()) if arguments.reply else _ANSWER
    uvloop.run(serve(arguments.port, arguments.delay_ms / 1000, answer))


if __name__ == "__main__":
    main()
