"""What a program writes: read in pieces of bounded size, up to a cap for each stream."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field

#: The most that one wake-up of the event loop reads from one pipe.
CHUNK_BYTES = 65536
#: The most that a pipe can hold (pipe-max-size in pipe(7)), and in how many packets.
_MAX_PIPE_BYTES = 2**20
_MAX_PIPE_PACKETS = 256
#: Lines of the record channel that no case accounts for: `begun`, `crashed`, `done` and the like.
_RECORDS_OF_PROGRAM = 64
_RECORDS_OF_CASE = 16


class PipeReader:
    """Reads a pipe as the program writes to it, so that the program never waits for a reader."""

    def __init__(self, fd: int, take: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._take = take
        self._is_open = True
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self.read)

    def read(self) -> int:
        """Read one chunk, if there is one; return its size."""
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
        """Read what the pipe holds now.

        The bounds keep this from running for as long as a program writes.
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
    """The bytes of one stream, up to a cap; `on_overflow` gets the size of what is dropped."""

    limit_bytes: int
    on_overflow: Callable[[int], None]
    data: bytearray = field(default_factory=bytearray)

    def take(self, chunk: bytes) -> None:
        room = self.limit_bytes - len(self.data)
        self.data += chunk[:room]
        if len(chunk) > room:
            self.on_overflow(len(chunk) - room)


class RecordLines:
    """The lines of the record channel, which the program can write to as well.

    A line that is longer than `max_line_bytes`, or more lines than the cases of a run have, stop
    the reading: `on_overflow` is called with whether there were too many lines.
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
