"""A stage's command as a process that ends with this one."""

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

from assay_shared.errors import Conflict
from assay_shared.runtime.processes import end, last_lines, spawn
from assay_trainer.stop import Stop

_POLL_S = 0.2
#: Time to write a checkpoint after SIGTERM.
_GRACE_S = 180.0
#: Lines at the end of a log among which one is not empty.
_SHOWN_LINES = 20


def run_command(
    words: Sequence[str],
    log: Path,
    running: Path,
    stop: Stop,
    *,
    limit_s: float | None,
    on_line: Callable[[str], None],
) -> tuple[int, bool]:
    """Run `assay` with these words, with its output in `log`; it holds the lock `running`.

    On a stop, or after `limit_s`, it gets SIGTERM, and SIGKILL 180 s later.

    Returns:
        The exit code, and True if the limit was reached.

    Raises:
        Conflict: an earlier command of the stage, whose pipeline was killed, does not end.
    """
    began, is_late = time.monotonic(), False
    lock = _alone(running, stop)
    try:
        command = (sys.executable, "-m", "assay_shared.cli", *words)
        process = spawn(command, log=log, pass_fds=(lock,))
    finally:
        os.close(lock)
    try:
        while process.poll() is None and not (stop.asked or is_late):
            os.utime(running)
            on_line(last_line(log))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
            is_running = process.poll() is None
            is_late = is_running and time.monotonic() - began >= (
                inf if limit_s is None else limit_s
            )
    finally:
        end([process], _GRACE_S)
    return process.returncode, is_late and not stop.asked


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty."""
    lines = reversed(last_lines(log, _SHOWN_LINES))
    return next((line.strip() for line in lines if line.strip()), "")


def _alone(file: Path, stop: Stop) -> int:
    """Return a lock that the command inherits; wait for one of a process that was killed.

    Raises:
        Conflict: the stage's earlier command does not end.
    """
    lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + _GRACE_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if stop.asked or time.monotonic() > deadline:
                os.close(lock)
                raise Conflict(
                    f"an earlier command still writes to {file.parent}",
                    hint="end it, and start again",
                ) from None
            time.sleep(_POLL_S)
        else:
            return lock
