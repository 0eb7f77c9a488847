"""An endpoint in breach of the protocol itself: resets, stalls, garbage, half an answer."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n"
#: What is sent before the connection is closed, or is left as it is.
BREAKS = {
    "reset": b"",
    "closed at once": b"",
    "garbage": b"\x00\xff\x16\x03garbage\r\n\r\n" * 20,
    "half a body": _HEAD + b'{"choices": [',
    "stalled body": _HEAD + b'{"choices": [',
    "no first byte": b"",
}
_STAYS = {"stalled body", "no first byte"}


@asynccontextmanager
async def raw_upstream(how: str) -> AsyncIterator[str]:
    """Return the address of an endpoint that breaks each connection in this way."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if how == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.write(BREAKS[how])
        if how in _STAYS:
            await reader.read()  # until the client has had enough
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"
