"""Opens a run's files for reading: a run's folder may be from someone else."""

import os
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; a pipe or a device could block or have no end.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("it is not a regular file")
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: the file cannot be read, is not a regular file, or has more than `max_bytes`.
    """
    with open_regular(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(f"it has more than {max_bytes} bytes")
    return content


def reason_of(error: OSError) -> str:
    """Return why a file cannot be read, without its path."""
    return error.strerror or str(error)
