"""Tells the server when a program begins to wait, and when it computes again."""

import socket
import time
from contextlib import suppress

#: What a slot says while a program runs.
IDLE, BUSY = b"I", b"B"
#: A program that used a smaller share of one core since the last look is idle.
_IDLE_SHARE = 0.1


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
        is_idle = used_s < _IDLE_SHARE * (now - self._looked_at)
        self._looked_at, self._cpu_time_s = now, cpu_time_s
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            with suppress(OSError):  # a server that is gone is noticed by the caller
                self._server.send(IDLE if is_idle else BUSY, socket.MSG_DONTWAIT)
