"""Child processes: started with a tie to their parent, and ended in order."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PARENT = "ASSAY_PARENT"
_TAIL_BYTES = 2**20


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    environment: dict[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start an Assay command in its own session; append its output to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=(os.environ if environment is None else environment) | {_PARENT: str(os.getpid())},
            pass_fds=pass_fds,
            start_new_session=True,
        )


def spawn_silent(
    command: Sequence[str], *, environment: dict[str, str], pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start an Assay command in its own session; drop its output."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment | {_PARENT: str(os.getpid())},
        pass_fds=pass_fds,
        start_new_session=True,
    )


def tie_to_parent() -> None:
    """Have the kernel end this spawned process when its parent ends for any reason.

    The child makes this call: code between fork and exec is not safe in a parent with threads.
    """
    parent = os.environ.get(_PARENT)
    if parent is not None:
        tie_to(int(parent))


def tie_to(parent: int) -> None:
    """Tie this process to `parent` as `tie_to_parent` does; for the initialiser of a pool."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent ended before the line above
        sys.exit(0)


def raise_descriptor_limit() -> None:
    """Raise this process's limit on open files to its hard limit.

    Each connection is an open file, and more requests may wait than the usual soft limit of 1024.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def end(processes: Sequence[subprocess.Popen[bytes]], grace_s: float) -> None:
    """Send SIGTERM to all, wait `grace_s` in total, then kill the sessions still running."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    wait_or_kill(processes, grace_s)


def wait_or_kill(processes: Sequence[subprocess.Popen[bytes]], grace_s: float) -> None:
    """Wait `grace_s` in total for processes asked to end, then kill the sessions still running."""
    deadline = time.monotonic() + grace_s
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def last_lines(log: Path, number: int) -> list[str]:
    """Return the last `number` lines of a log, of its last MiB."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()[-number:]
