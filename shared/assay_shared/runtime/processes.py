"""Child processes that cannot be left behind, and what is needed to end them in order."""

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


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    environment: dict[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start one of our own commands in a session of its own, with its output in `log`."""
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
    """Start one of our own commands in a session of its own; what it prints is dropped."""
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
    """In a spawned process: have the kernel end it when its parent ends, however that happens.

    The child asks for this itself: code between fork and exec is not safe beside threads.
    """
    parent = os.environ.get(_PARENT)
    if parent is not None:
        tie_to(int(parent))


def tie_to(parent: int) -> None:
    """The same for a child whose parent's id is known otherwise: a pool's initialiser."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(0)


def raise_descriptor_limit() -> None:
    """Allow this process as many open files as it may have: each connection is one, and the usual
    soft limit, 1024, is less than the requests that may wait."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def end(processes: Sequence[subprocess.Popen[bytes]], grace_s: float) -> None:
    """Ask all to end, give them `grace_s` together, then kill what is left of their sessions."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    wait_or_kill(processes, grace_s)


def wait_or_kill(processes: Sequence[subprocess.Popen[bytes]], grace_s: float) -> None:
    """Give those that were asked to end `grace_s` together; kill what is left after it."""
    deadline = time.monotonic() + grace_s
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def last_lines(log: Path, number: int) -> list[str]:
    """The end of a log, for a message."""
    return log.read_text(errors="replace").splitlines()[-number:] if log.exists() else []
