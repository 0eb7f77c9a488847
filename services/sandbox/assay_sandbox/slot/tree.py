"""A process and all that it has started, as /proc shows them. man page: proc(5)."""

import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: Of the fields of /proc/PID/stat behind the name: the parent, the CPU time of children that it has
#: waited for (user, system), and when it began.
_PARENT, _WAITED, _START = 1, slice(13, 15), 19
#: The kernel's number for the CPU clock of a process is made of its id: clock_getcpuclockid(3).
_CPU_CLOCK = 2
#: What whole ticks of two counters may hide.
_ROUNDING_S = 2 / _TICKS_PER_S


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


def members(root: int, *, is_alone: bool) -> list[int]:
    """Processes below `root`: all others that /proc shows, where it is alone with them."""
    if is_alone:
        found = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        found.remove(root)
        return found
    found, waiting = [], [root]
    while waiting:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            below = children(waiting.pop())
            found += below
            waiting += below
    return found


@dataclass
class _Seen:
    """A process at one look."""

    parent: int
    started: bytes
    own_s: float
    #: Of children that it has waited for, and theirs.
    waited_s: float

    @property
    def cpu_time_s(self) -> float:
        return self.own_s + self.waited_s


def _see(pid: int) -> _Seen | None:
    """A process as it is now; None if it is gone."""
    try:
        # A process chooses its name, in any bytes, brackets and line ends among them.
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        own_s = time.clock_gettime(~pid << 3 | _CPU_CLOCK)
    except OSError:
        return None
    waited_s = sum(map(int, fields[_WAITED])) / _TICKS_PER_S
    return _Seen(int(fields[_PARENT]), fields[_START], own_s, waited_s)


class CpuCount:
    """The CPU time of everything below a process that waits for none of it meanwhile.

    A process that its parent waits for is in the parent's account. One that nobody waits for
    (SIGCHLD is ignored) leaves no account when it ends: it counts with what it had used at the
    last look. So what such processes use after the last look at them is missed.
    """

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}
        self._lost_s = 0.0
        self._total_s = 0.0

    def look(self, pids: list[int]) -> float:
        """CPU seconds so far; `pids` are the processes that there are now."""
        found = {pid: seen for pid in pids if (seen := _see(pid)) is not None}
        self._lost_s += self._find_lost_s(found)
        self._seen = found
        total_s = sum(seen.cpu_time_s for seen in found.values()) + self._lost_s
        self._total_s = max(self._total_s, total_s)  # ticks are cut off
        return self._total_s

    def total_s(self, reaped_s: float) -> float:
        """CPU seconds in all, once all has ended and was reaped."""
        return max(self._total_s, reaped_s + self._lost_s)

    def _find_lost_s(self, found: dict[int, _Seen]) -> float:
        """What has ended since the last look and is in no account of a process that lives."""
        owed_s: dict[int, float] = {}
        for pid, seen in self._seen.items():
            if not _is_same(found.get(pid), seen):
                heir = self._living_ancestor(seen, found)
                owed_s[heir] = owed_s.get(heir, 0.0) + seen.cpu_time_s
        lost_s = 0.0
        for pid, seconds in owed_s.items():
            paid_s = 0.0
            if pid in found and pid in self._seen:
                paid_s = found[pid].waited_s - self._seen[pid].waited_s
            missing_s = seconds - paid_s
            lost_s += missing_s if missing_s > _ROUNDING_S or paid_s == 0.0 else 0.0
        return lost_s

    def _living_ancestor(self, seen: _Seen, found: dict[int, _Seen]) -> int:
        """The nearest one that has not ended too; the root, or one not seen before, as it is."""
        parent = seen.parent
        while parent in self._seen and not _is_same(found.get(parent), self._seen[parent]):
            parent = self._seen[parent].parent
        return parent


def _is_same(now: _Seen | None, then: _Seen) -> bool:
    return now is not None and now.started == then.started
