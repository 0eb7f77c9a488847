"""The lock of a folder: at most one process trains a run, and others can read its name.

`.lock` holds the owner's name as JSON. The kernel releases the lock when its process ends for any
reason, so a name in an unlocked file has no meaning.
"""

import fcntl
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ValidationError

from assay_shared.errors import Conflict

LOCK = ".lock"
#: Attempts to take the lock: a reader of the owner's name holds it for microseconds.
_ATTEMPTS = 10
_PAUSE_S = 0.01


class Owner(BaseModel):
    """The owner of a run: the process that trains it."""

    pid: int
    host: str
    command: str
    #: Seconds since 1970.
    started: float

    @classmethod
    def this_process(cls) -> "Owner":
        program = Path(sys.argv[0]).name
        words = ["assay" if program == "cli.py" else program, *sys.argv[1:]]
        return cls(
            pid=os.getpid(),
            host=socket.gethostname(),
            command=" ".join(words)[:120],
            started=time.time(),
        )

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.started))
        return f"process {self.pid} on {self.host} ({self.command}), since {since}"


@contextmanager
def held(folder: Path, called: str | None = None, lock: str = LOCK) -> Iterator[Owner]:
    """Hold the run in `folder` within the block; yield this process as its owner.

    A folder of something else has another `lock`, and is `called` by another name than a run's.

    Raises:
        Conflict: another process holds it; the message names that process.
    """
    fd = os.open(folder / lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _take(fd):
            owner = _read(fd) or "another process"
            raise Conflict(
                f"{called or f'run {folder.name}'} belongs to {owner}",
                hint="wait until it ends, or stop it; two owners would overwrite each other's work",
            )
        owner = Owner.this_process()
        os.ftruncate(fd, 0)
        os.pwrite(fd, owner.model_dump_json().encode(), 0)
        yield owner
    finally:
        os.close(fd)


def owner_of(folder: Path) -> Owner | None:
    """Return the process that holds the run, or None.

    Raises:
        OSError: the lock cannot be read.
    """
    try:
        fd = os.open(folder / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(fd) or Owner(pid=0, host="an unknown host", command="unknown", started=0.0)
    finally:
        os.close(fd)
    return None


def _take(fd: int) -> bool:
    for attempt in range(_ATTEMPTS):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt < _ATTEMPTS - 1:
                time.sleep(_PAUSE_S)
        else:
            return True
    return False


def _read(fd: int) -> Owner | None:
    """Return the owner in the file, or None if it is not written yet or cannot be read."""
    try:
        return Owner.model_validate_json(os.pread(fd, 10_000, 0))
    except ValidationError:
        return None
