"""Lines of a growing file with their places; each damaged line is named, never fatal."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from assay_shared.runs.regular_file import open_regular

#: The longest line that is read. A group of 64 long answers has some 30 MiB.
MAX_LINE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class FoundLine:
    """A whole line: its first byte, its bytes with the line's end, and why it cannot be read."""

    offset: int
    length: int
    content: bytes
    problem: str = ""


def whole_lines(
    file: BufferedReader, start: int, most: int = MAX_LINE_BYTES
) -> Iterator[FoundLine]:
    """Yield the whole lines from byte `start`; stop before a line without an end.

    A line of more than `most` bytes comes without content and with a problem.
    """
    file.seek(start)
    offset = start
    while True:
        content = file.readline(most + 1)
        length = len(content)
        if content.endswith(b"\n"):
            yield FoundLine(offset, length, content)
        elif length <= most:
            return  # empty at the end of the file, or half written
        else:
            length += _skip_line(file)
            if not _ended(file):
                return
            reason = f"a line of {length} bytes; lines of at most {most} are read"
            yield FoundLine(offset, length, b"", reason)
        offset += length


def _skip_line(file: BufferedReader) -> int:
    """Move behind the end of the line, or to the end of the file; return the number of bytes."""
    skipped = 0
    while True:
        content = file.readline(2**20)
        skipped += len(content)
        if not content or content.endswith(b"\n"):
            return skipped


def _ended(file: BufferedReader) -> bool:
    """Return True if the byte before the position ends a line."""
    file.seek(-1, os.SEEK_CUR)
    return file.read(1) == b"\n"


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Return inode, size and time of a file; None if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def read_at(path: Path, identity: tuple[int, int], offset: int, length: int) -> bytes | None:
    """Return bytes of a file; None if the path is another file by now."""
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != identity:
                return None
            return os.pread(file.fileno(), length, offset)
    except OSError:
        return None
