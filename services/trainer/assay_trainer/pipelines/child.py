"""A stage's command as a process that ends with this one."""

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from assay_shared.errors import Conflict
from assay_trainer.stop import Stop

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.2
#: Time to write a checkpoint after SIGTERM.
_GRACE_S = 180.0
_TAIL_BYTES = 4096


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
    log.parent.mkdir(parents=True, exist_ok=True)
    began, ended_for_time = time.monotonic(), False
    with log.open("ab") as file:
        process = _start(words, file, _alone(running, stop))
        told_at: float | None = None
        while process.poll() is None:
            now = time.monotonic()
            is_late = limit_s is not None and now - began >= limit_s
            if told_at is None and (stop.asked or is_late):
                ended_for_time, told_at = is_late and not stop.asked, now
                process.terminate()
            if told_at is not None and now - told_at > _GRACE_S:
                process.kill()
            os.utime(running)
            on_line(last_line(log))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
    return process.returncode, ended_for_time


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        text = file.read().decode(errors="replace").replace("\r", "\n")
    return next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "")


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


def _start(words: Sequence[str], log: IO[bytes], lock: int) -> "subprocess.Popen[bytes]":
    """Start a command that holds the lock in this process's place."""
    parent = os.getpid()

    def end_with_parent() -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    try:
        return subprocess.Popen(
            [sys.executable, "-m", "assay_shared.cli", *words],
            pass_fds=(lock,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process, which passes it on once
            preexec_fn=end_with_parent,  # no threads run here
        )
    finally:
        os.close(lock)
