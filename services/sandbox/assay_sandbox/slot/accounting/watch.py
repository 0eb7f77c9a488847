"""Watches one program from the slot's first process: ends it at a limit, tells when it is idle.

While it runs, each of these messages is one byte, and a message of its own:

from the server
    K   end the program now
    C   its next case begins: the CPU limit, which is that of a case, counts from here

to the server, before the answer (which is never one byte long)
    I   the program has become idle: over the last 0.1 s it and all that it started have
        used less than a tenth of one core. A program begins as busy.
    B   it is busy again: it has used more in a window of 0.1 s
"""

import math
import os
import select
import signal
import socket
import time

from assay_sandbox.slot.accounting import tree
from assay_sandbox.slot.accounting.meter import Meter

#: Messages of the server beside requests: end the program; its next case begins.
KILL, BEGIN_CASE = b"K", b"C"
#: Messages to the server before the answer: the program has stopped to use the CPU, or uses it.
IDLE, BUSY = b"I", b"B"
#: By how much a program may exceed its CPU time before it is called over it: one clock tick.
CPU_GRACE_S = 0.01
#: CPU use is averaged over windows of this length.
_WINDOW_S = 0.1
#: A program that uses less of one core than this is idle.
_IDLE_CORES = 0.1
#: One that uses less than this is looked at: it may sleep for the rest of the time.
_HALF_IDLE_CORES = 0.5
#: No two looks at what a program uses are closer than this: what it may exceed a limit by.
_SHORTEST_S = 0.005
#: The server keeps the wall clock; this ends a program that the server forgot.
_BACKSTOP_S = 10.0
#: More boundaries than this between cases are not reported one by one.
_MAX_CASES = 4096
_CORES = max(1, len(os.sched_getaffinity(0)))


class Watch:
    """The limits of one program, compared with what it uses until it ends.

    The CPU limit is that of a case. A program that is run without cases is one case, and each cell
    of a session is one. The allowance starts anew with each `BEGIN_CASE` that the server sends, and
    with nothing else.
    """

    def __init__(
        self, server: socket.socket, meter: Meter, cpu_time_s: float, wall_time_s: float
    ) -> None:
        self._server = server
        self._meter = meter
        self._cpu_limit_s = cpu_time_s
        self._wall_limit_s = wall_time_s
        self._case_started_s = 0.0
        #: What was used in each case that has ended.
        self._cases_s: list[float] = []
        self._is_idle = False
        #: How long the program has neither computed nor waited for a core.
        self.idle_time_s = 0.0
        self._sleeps = False
        self._window_started = time.monotonic()
        self._window_used_s = 0.0
        #: As of the last look.
        self._used_s = 0.0
        self._deadline = self._window_started + wall_time_s + _BACKSTOP_S
        self.is_server_gone = False
        self.killed_by_server = False
        self.out_of_cpu = False
        self.out_of_memory = False

    def wait(self, pid: int) -> None:
        """Return when the program has ended, or kill it for a limit or by order of the server.

        The program's process is left to be reaped, and what it has started to be killed.
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
        """Count what is left of the last window: one that slept has woken up only to end."""
        if self._sleeps:
            self.idle_time_s += time.monotonic() - self._window_started

    def finish(self, cpu_time_s: float) -> list[float]:
        """Take the total of a program that has ended; return what each of its cases has used."""
        used_s = cpu_time_s - self._case_started_s
        self.out_of_cpu = self.out_of_cpu or used_s > self._cpu_limit_s + CPU_GRACE_S
        return [*self._cases_s, used_s]

    def _until_next_look_s(self) -> float:
        """When the program may be over a limit at the earliest, if it uses all cores."""
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
        except OSError:  # the server does not read now: said after the next window
            return
        self._is_idle = is_idle
