"""A stage's command as a process that ends with this one."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from assay_trainer.stop import Stop

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.2
#: Time to write a checkpoint after SIGTERM.
_GRACE_S = 180.0
_TAIL_BYTES = 4096


def run_command(
    words: Sequence[str],
    log: Path,
    stop: Stop,
    *,
    limit_s: float | None,
    on_line: Callable[[str], None],
) -> tuple[int, bool]:
    """Run `assay` with these words, with its output in `log`.

    On a stop, or after `limit_s`, it gets SIGTERM, and SIGKILL 180 s later.

    Returns:
        The exit code, and True if the limit was reached.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    began, ended_for_time = time.monotonic(), False
    with log.open("ab") as file:
        process = _start(words, file)
        told_at: float | None = None
        while process.poll() is None:
            now = time.monotonic()
            is_late = limit_s is not None and now - began >= limit_s
            if told_at is None and (stop.asked or is_late):
                ended_for_time, told_at = is_late and not stop.asked, now
                process.terminate()
            if told_at is not None and now - told_at > _GRACE_S:
                process.kill()
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


def _start(words: Sequence[str], log: IO[bytes]) -> "subprocess.Popen[bytes]":
    parent = os.getpid()

    def end_with_parent() -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return subprocess.Popen(
        [sys.executable, "-m", "assay_shared.cli", *words],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C reaches this process, which passes it on once
        preexec_fn=end_with_parent,  # no threads run here
    )
