"""An OpenAI-compatible endpoint that gives everything the same verdict, at once or after a wait.

    python bench/instant_upstream.py --port 9000 --delay-ms 0

A bare protocol: an endpoint that computes more would hide what lies in front of it. GET /count
tells how many completions it has given.
"""

import argparse
import asyncio
import json
import re
import socket
from typing import cast

import uvloop

from assay_shared.processes import tie_to_parent

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


class Counter:
    """Of the completions given, over all connections."""

    num_given = 0


class Connection(asyncio.Protocol):
    """Answers each whole request of one kept-alive connection."""

    def __init__(self, delay_s: float, counter: Counter) -> None:
        self._delay_s = delay_s
        self._counter = counter
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while end := self._end_of_request():
            is_count = self._received.startswith(b"GET /count ")
            self._received = self._received[end:]
            if is_count:
                content = json.dumps({"count": self._counter.num_given}).encode()
                self._transport.write(response(content))
            else:
                self._counter.num_given += 1
                self._answer()
        if len(self._received) > _MAX_REQUEST_BYTES:
            self._transport.abort()

    def _end_of_request(self) -> int:
        """Where the first request ends; 0 while it has not all come."""
        end_of_head = self._received.find(b"\r\n\r\n") + 4
        if end_of_head < 4:
            return 0
        length = _LENGTH.search(self._received, 0, end_of_head)
        end = end_of_head + (int(length.group(1)) if length else 0)
        return end if end <= len(self._received) else 0

    def _answer(self) -> None:
        if self._delay_s:
            asyncio.get_running_loop().call_later(self._delay_s, self._transport.write, _ANSWER)
        else:
            self._transport.write(_ANSWER)


async def serve(port: int, delay_s: float) -> None:
    counter = Counter()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(delay_s, counter), "127.0.0.1", port, backlog=2048
    )
    listener: socket.socket = server.sockets[0]
    print("listening on http://{}:{}".format(*listener.getsockname()), flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--delay-ms", type=float, default=0.0)
    arguments = parser.parse_args()
    tie_to_parent()
    uvloop.run(serve(arguments.port, arguments.delay_ms / 1000))


if __name__ == "__main__":
    main()
