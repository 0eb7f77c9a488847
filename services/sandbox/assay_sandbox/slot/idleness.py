"""Tells the server when a program begins to wait, and when it computes again."""

import os
import socket
import time
from contextlib import suppress

from assay_sandbox.slot import tree

#: What a slot says while a program runs.
IDLE, BUSY = b"I", b"B"
#: A program that used a smaller share of one core since the last look is idle.
_IDLE_SHARE = 0.1
#: A program with more threads than this is taken for busy: looking at them all would take time.
_MAX_THREADS = 256


class Idleness:
    """Whether one program uses CPU time; the server lends an idle one's permit to another."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._looked_at = time.monotonic()
        self._cpu_time_s = 0.0
        self._is_idle = False

    def look(self, cpu_time_s: float) -> None:
        """Compare what the program has used so far with the last look; report a change."""
        now = time.monotonic()
        used_s = cpu_time_s - self._cpu_time_s
        is_idle = used_s < _IDLE_SHARE * (now - self._looked_at) and not wants_cpu()
        self._looked_at, self._cpu_time_s = now, cpu_time_s
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            with suppress(OSError):  # a server that is gone is noticed by the caller
                self._server.send(IDLE if is_idle else BUSY, socket.MSG_DONTWAIT)


def wants_cpu() -> bool:
    """Return whether a thread below this process is ready to run. On a busy machine it may be
    ready for long and have used no CPU time.
    """
    waiting, num_threads = tree.children(os.getpid()), 0
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):  # it has just ended
            threads = os.listdir(f"/proc/{pid}/task")
            num_threads += len(threads)
            if num_threads > _MAX_THREADS or any(_is_ready(pid, one) for one in threads):
                return True
            waiting += tree.children(pid)
    return False


def _is_ready(pid: int, thread: str) -> bool:
    with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
        return file.read().rpartition(b") ")[2].startswith(b"R")
