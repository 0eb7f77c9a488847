"""A balancer in front of replicas: connections in turn, no retries."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def balanced(ports: list[int]) -> Iterator[str]:
    """An address with its connections spread in turn over these ports of loopback.

    Without a listener the connection is reset, as by a cluster's virtual address.
    """
    turns = itertools.cycle(ports)
    ready, stop = threading.Event(), asyncio.Event()
    found: list[tuple[int, asyncio.AbstractEventLoop]] = []

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, to = await asyncio.open_connection("127.0.0.1", next(turns))
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_pump(reader, to), _pump(upstream, writer))

    async def main() -> None:
        server = await asyncio.start_server(forward, "127.0.0.1", 0)
        found.append((server.sockets[0].getsockname()[1], asyncio.get_running_loop()))
        ready.set()
        await stop.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert ready.wait(10)
    port, loop = found[0]
    yield f"http://127.0.0.1:{port}"
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while content := await reader.read(65536):
            writer.write(content)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()
