"""Readers of a program's output: they read bounded chunks, up to a cap for each stream."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field

#: Most bytes read from a pipe in one wake-up of the event loop.
CHUNK_BYTES = 65536
#: Most bytes in a pipe (pipe-max-size in pipe(7)), and the most packets they come in.
_MAX_PIPE_BYTES = 2**20
_MAX_PIPE_PACKETS = 256
#: Lines of the record channel outside of cases: `begun`, `crashed`, `done` and the like.
_RECORDS_OF_PROGRAM = 64
_RECORDS_OF_CASE = 16


class PipeReader:
    """Reads a pipe while the program writes, so the program never waits for a reader."""

    def __init__(self, fd: int, take: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._take = take
        self._is_open = True
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self.read)

    def read(self) -> int:
        """Read the next chunk, if any, and return its size."""
        if not self._is_open:
            return 0
        try:
            chunk = os.read(self._fd, CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if chunk:
            self._take(chunk)
        else:
            self.close()
        return len(chunk)

    def catch_up(self) -> None:
        """Read the present content of the pipe.

        Without the bounds, this would run for as long as the program writes.
        """
        num_bytes = 0
        for _ in range(_MAX_PIPE_PACKETS):
            size = self.read()
            num_bytes += size
            if not size or num_bytes >= _MAX_PIPE_BYTES:
                return

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)


@dataclass
class Capture:
    """The bytes of a stream, up to a cap; `on_overflow` gets the number of dropped bytes."""

    limit_bytes: int
    on_overflow: Callable[[int], None]
    data: bytearray = field(default_factory=bytearray)

    def take(self, chunk: bytes) -> None:
        room = self.limit_bytes - len(self.data)
        self.data += chunk[:room]
        if len(chunk) > room:
            self.on_overflow(len(chunk) - room)


class RecordLines:
    """The lines of the record channel. The program can write to it too, so they are bounded.

    `on_overflow` is called with True after more lines than the cases of a run account for, and with
    False after a line over `max_line_bytes` or too many bytes in all.
    """

    def __init__(
        self,
        num_cases: int,
        max_line_bytes: int,
        on_line: Callable[[bytes], None],
        on_overflow: Callable[[bool], None],
    ) -> None:
        self._lines_left = _RECORDS_OF_PROGRAM + _RECORDS_OF_CASE * num_cases
        self._max_line_bytes = max(max_line_bytes, CHUNK_BYTES)
        self._bytes_left = self._max_line_bytes * (1 + num_cases)
        self._on_line = on_line
        self._on_overflow = on_overflow
        self._partial = bytearray()

    def take(self, chunk: bytes) -> None:
        first, *others = chunk.split(b"\n", self._lines_left + 1)
        self._partial += first
        if others:
            lines = [bytes(self._partial), *others[:-1]]
            self._partial = bytearray(others[-1])
            self._hand_on(lines)
        self._bytes_left -= len(chunk)
        if self._bytes_left < 0 or len(self._partial) > self._max_line_bytes:
            self._on_overflow(False)

    def _hand_on(self, lines: list[bytes]) -> None:
        for line in lines[: self._lines_left]:
            self._on_line(line)
        self._lines_left -= len(lines)
        if self._lines_left < 0:
            self._lines_left = 0
            self._partial.clear()
            self._on_overflow(True)
