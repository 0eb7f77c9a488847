"""Watches a program from the slot's first process: ends it at a limit, reports idle and busy.

While the program runs, both sides send messages of a single byte:

from the server
    K   end the program now
    C   the program's next case begins: the CPU limit is per case, and counts from here

to the server, before the answer (the answer is always longer)
    I   the program has become idle: over the last 0.1 s, the program and its descendants used
        less than a tenth of a core. A program begins as busy.
    B   the program is busy again: it used more in a window of 0.1 s
"""

import math
import os
import select
import signal
import socket
import time

from assay_sandbox.slot.accounting import tree
from assay_sandbox.slot.accounting.meter import Meter

#: Messages of the server other than requests: end the program; its next case begins.
KILL, BEGIN_CASE = b"K", b"C"
#: Messages to the server before the answer: the program stopped using the CPU, or uses it again.
IDLE, BUSY = b"I", b"B"
#: A program is over its CPU limit only if it exceeds the limit by more: one clock tick.
CPU_GRACE_S = 0.01
#: CPU use is averaged over windows of this length.
_WINDOW_S = 0.1
#: A program using less of a core than this is idle.
_IDLE_CORES = 0.1
#: Below this use, the program's threads are checked: the program may sleep the rest of the time.
_HALF_IDLE_CORES = 0.5
#: Shortest pause between two checks of CPU use. A program may exceed a limit by as much.
_SHORTEST_S = 0.005
#: The server keeps the wall clock. A program forgotten by the server ends this much later.
_BACKSTOP_S = 10.0
#: At most this many boundaries between cases are reported.
_MAX_CASES = 4096
_CORES = max(1, len(os.sched_getaffinity(0)))


class Watch:
    """The limits of a program, compared with its resource use until it ends.

    The CPU limit is per case. A program without cases is a single case, and so is each cell of a
    session. Only a `BEGIN_CASE` from the server starts a new allowance.
    """

    def __init__(
        self, server: socket.socket, meter: Meter, cpu_time_s: float, wall_time_s: float
    ) -> None:
        self._server = server
        self._meter = meter
        self._cpu_limit_s = cpu_time_s
        self._wall_limit_s = wall_time_s
        self._case_started_s = 0.0
        #: CPU seconds of each ended case.
        self._cases_s: list[float] = []
        self._is_idle = False
        #: Seconds in which the program neither computed nor waited for a core.
        self.idle_time_s = 0.0
        self._sleeps = False
        self._window_started = time.monotonic()
        self._window_used_s = 0.0
        #: CPU seconds at the last check.
        self._used_s = 0.0
        self._deadline = self._window_started + wall_time_s + _BACKSTOP_S
        self.is_server_gone = False
        self.killed_by_server = False
        self.out_of_cpu = False
        self.out_of_memory = False

    def wait(self, pid: int) -> None:
        """Wait for the program to end, or kill it at a limit or by order of the server.

        The caller reaps the program's process and kills its descendants.
        """
        pidfd = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.register(self._server, select.POLLIN)
            while True:
                ready = [fd for fd, _ in poll.poll(math.ceil(self._until_next_look_s() * 1000))]
                if pidfd in ready:
                    self._count_rest()
                    return
                if self._must_end(has_message=bool(ready)):
                    break
        finally:
            os.close(pidfd)
        os.kill(pid, signal.SIGKILL)

    def _count_rest(self) -> None:
        """Count the rest of the last window as idle if the program slept: it woke only to end."""
        if self._sleeps:
            self.idle_time_s += time.monotonic() - self._window_started

    def finish(self, cpu_time_s: float) -> list[float]:
        """Take the total CPU seconds of an ended program; return the seconds of each case."""
        used_s = cpu_time_s - self._case_started_s
        self.out_of_cpu = self.out_of_cpu or used_s > self._cpu_limit_s + CPU_GRACE_S
        return [*self._cases_s, used_s]

    def _until_next_look_s(self) -> float:
        """Return the seconds until the program could exceed a limit by using all cores."""
        left_s = self._cpu_limit_s + CPU_GRACE_S - (self._used_s - self._case_started_s)
        pause_s = max(_SHORTEST_S, left_s / _CORES)
        window_left_s = self._window_started + _WINDOW_S - time.monotonic()
        return max(0.0, min(pause_s, window_left_s, self._meter.until_next_look_s()))

    def _must_end(self, *, has_message: bool) -> bool:
        if has_message:
            message = self._server.recv(1)
            if message == BEGIN_CASE:
                self._begin_case()
                return False
            self.is_server_gone = not message
            self.killed_by_server = bool(message)
            return True
        return self._is_over()

    def _begin_case(self) -> None:
        used_s = self._meter.cpu_time_s()
        if len(self._cases_s) < _MAX_CASES:
            self._cases_s.append(used_s - self._case_started_s)
        self._case_started_s = self._used_s = used_s
        self._deadline = time.monotonic() + self._wall_limit_s + _BACKSTOP_S

    def _is_over(self) -> bool:
        now, used_s = time.monotonic(), self._meter.cpu_time_s()
        self._used_s = used_s
        self.out_of_memory = self._meter.is_out_of_memory()
        self.out_of_cpu = used_s - self._case_started_s > self._cpu_limit_s + CPU_GRACE_S
        if now >= self._window_started + _WINDOW_S:
            self._end_window(now, used_s)
        return self.out_of_memory or self.out_of_cpu or now > self._deadline

    def _end_window(self, now: float, used_s: float) -> None:
        length_s = now - self._window_started
        window_used_s = used_s - self._window_used_s
        cores = window_used_s / length_s
        self._window_started, self._window_used_s = now, used_s
        self._sleeps = cores < _HALF_IDLE_CORES and not tree.wants_cpu(os.getpid())
        if self._sleeps:
            self.idle_time_s += length_s - window_used_s
        is_idle = self._sleeps and cores < _IDLE_CORES
        if is_idle == self._is_idle:
            return
        try:
            self._server.send(IDLE if is_idle else BUSY, socket.MSG_DONTWAIT)
        except OSError:  # the server does not read now: sent after the next window
            return
        self._is_idle = is_idle
