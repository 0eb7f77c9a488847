"""A run's events as server-sent events; an event's id is the byte after its line.

A single reader polls for new events, whatever the number of a run's clients; files are read off
the event loop, and clients at the same position share a read.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from assay_shared.errors import InternalFault, InvalidInput

_log = logging.getLogger(__name__)
_POLL_S = 0.2
_KEEP_ALIVE_S = 10.0
_STILL_HERE = b": still here\n\n"
#: Read at once, and kept for other clients; and the longest line.
_CHUNK_BYTES = 256 * 2**10
_MAX_LINE_BYTES = 16 * 2**20
_NUM_KEPT = 16


@dataclass(frozen=True)
class _Chunk:
    """Whole lines of a file, as they are sent; `end` is the byte after the last."""

    end: int
    frames: bytes


class EventStreams:
    """The streams of all runs."""

    def __init__(self) -> None:
        self._tails: dict[Path, _Tail] = {}

    async def follow(
        self, file: Path, after: int, is_alive: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """Yield all events after a position as they come, and a comment now and then.

        Ends when the run does. `is_alive` returns True while more events may come.
        """
        async with self._joined(file, is_alive) as tail:
            position = after
            while True:
                if position < tail.position:
                    chunk = await tail.chunk_at(position)
                    position = chunk.end
                    yield chunk.frames
                elif tail.is_over:
                    return
                else:
                    try:
                        await asyncio.wait_for(tail.changed.wait(), _KEEP_ALIVE_S)
                    except TimeoutError:
                        yield _STILL_HERE

    @asynccontextmanager
    async def _joined(self, file: Path, is_alive: Callable[[], bool]) -> "AsyncIterator[_Tail]":
        tail = self._tails.get(file)
        if tail is None or tail.is_over:
            tail = self._tails[file] = _Tail(file, is_alive)
        tail.num_clients += 1
        try:
            yield tail
        finally:
            tail.num_clients -= 1
            if not tail.num_clients:
                tail.close()
                if self._tails.get(file) is tail:
                    del self._tails[file]


class _Tail:
    """The only reader of a run's new events."""

    def __init__(self, file: Path, is_alive: Callable[[], bool]) -> None:
        self._file = file
        self._is_alive = is_alive
        #: Up to here, whole lines are in the file.
        self.position = 0
        self.is_over = False
        #: Set when either of these has changed; each change has its own.
        self.changed = asyncio.Event()
        self.num_clients = 0
        self._chunks: OrderedDict[int, asyncio.Task[_Chunk]] = OrderedDict()
        self._task = asyncio.create_task(self._look())

    def close(self) -> None:
        self._task.cancel()

    async def chunk_at(self, position: int) -> _Chunk:
        """Return the lines from a position; the same for all clients."""
        reading = self._chunks.get(position)
        if reading is None:
            work = asyncio.to_thread(_read, self._file, position, self.position)
            reading = self._chunks[position] = asyncio.create_task(work)
            while len(self._chunks) > _NUM_KEPT:
                self._chunks.popitem(last=False)
        self._chunks.move_to_end(position)
        return await asyncio.shield(reading)

    async def _look(self) -> None:
        try:
            while True:
                # Before the look: what a process wrote last is not missed.
                is_alive = self._is_alive()
                end = await asyncio.to_thread(_last_line_end, self._file, self.position)
                if end > self.position:
                    self.position = end
                    self._tell()
                if not is_alive:
                    return
                await asyncio.sleep(_POLL_S)
        except OSError:
            _log.exception("%s cannot be read", self._file)
        finally:
            self.is_over = True
            self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


def check_position(file: Path, position: int) -> None:
    """Raise InvalidInput if no event of the file ends at a position. 0 is before the first."""
    if position == 0:
        return
    is_end = False
    if file.exists() and 0 < position <= file.stat().st_size:
        with file.open("rb") as content:
            content.seek(position - 1)
            is_end = content.read(1) == b"\n"
    if not is_end:
        raise InvalidInput(f"no event of this run has the id {position}", field="last-event-id")


def _last_line_end(file: Path, start: int) -> int:
    """Return the byte after the last whole line, looking back from the end no further than needed.

    `start` is such a byte of an earlier look.
    """
    if not file.exists():
        return start
    with file.open("rb") as content:
        end = content.seek(0, 2)
        while end > start:
            begin = max(start, end - _CHUNK_BYTES)
            content.seek(begin)
            found = content.read(end - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
    return start


def _read(file: Path, start: int, end: int) -> _Chunk:
    """Return the lines between two positions, up to a chunk, and at least one line."""
    with file.open("rb") as content:
        content.seek(start)
        size = min(_CHUNK_BYTES, end - start)
        lines = content.read(size)
        while (length := lines.rfind(b"\n") + 1) == 0:
            more = content.read(min(_CHUNK_BYTES, end - start - len(lines)))
            lines += more
            if not more or len(lines) > _MAX_LINE_BYTES:
                raise InternalFault(f"{file}: there is no line at {start}")
    frames = []
    position = start
    for line in lines[:length].splitlines(keepends=True):
        position += len(line)
        frames.append(b"id: %d\ndata: %b\n" % (position, line))
    return _Chunk(position, b"".join(frames))
