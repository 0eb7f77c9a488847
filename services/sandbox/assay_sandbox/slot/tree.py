"""A process and all that it has started, as /proc shows them. man page: proc(5)."""

import os
import select
import signal
from contextlib import suppress

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: Of the fields of /proc/PID/stat behind the name: utime, stime, cutime, cstime.
_TIMES = slice(11, 15)


def children(pid: int) -> list[int]:
    """Processes whose parent it is, dead ones that nobody has waited for among them."""
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
            found += map(int, file.read().split())
    return found


def end(pid: int, grace_s: float) -> None:
    """Reap a child; killed, if it has not ended by itself within `grace_s`."""
    pidfd = os.pidfd_open(pid)
    select.select([pidfd], [], [], grace_s)
    os.close(pidfd)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def cpu_time_s(pid: int) -> float:
    """CPU seconds of everything below a process, so far."""
    ticks, waiting = 0, children(pid)
    while waiting:
        one = waiting.pop()
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            # A process chooses its name, in any bytes, brackets and line ends among them.
            with open(f"/proc/{one}/stat", "rb") as file:
                ticks += sum(map(int, file.read().rpartition(b")")[2].split()[_TIMES]))
            waiting += children(one)
    return ticks / _TICKS_PER_S
