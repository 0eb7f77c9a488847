"""A process and its descendants, read from /proc. man page: proc(5)."""

import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: Indices of fields after the name in /proc/PID/stat: the parent, the CPU time of children the
#: process has waited for (user, system), and its start time.
_PARENT, _WAITED, _START = 1, slice(13, 15), 19
#: The kernel derives the number of a process's CPU clock from its id: clock_getcpuclockid(3).
_CPU_CLOCK = 2
#: CPU seconds hidden at most by two counters of whole ticks.
_ROUNDING_S = 2 / _TICKS_PER_S
_SHORTEST_LIFE_S = 0.001
#: A program with more threads than this counts as busy: checking all threads would take long.
_MAX_THREADS = 256


def children(pid: int) -> list[int]:
    """Return the children of a process, including dead children not waited for yet."""
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
            found += map(int, file.read().split())
    return found


def end(pid: int, grace_s: float) -> None:
    """Reap a child. Kill it first if it has not ended within `grace_s` seconds."""
    pidfd = os.pidfd_open(pid)
    select.select([pidfd], [], [], grace_s)
    os.close(pidfd)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def members(root: int, *, is_alone: bool) -> list[int]:
    """Return the processes below `root`; if `is_alone`, all other processes in /proc."""
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


def wants_cpu(root: int) -> bool:
    """Return True if a thread below `root` is ready to run.

    On a busy machine a thread may be ready for long without any CPU time.
    """
    waiting, num_threads = children(root), 0
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):  # it has just ended
            threads = os.listdir(f"/proc/{pid}/task")
            num_threads += len(threads)
            if num_threads > _MAX_THREADS or any(_is_ready(pid, one) for one in threads):
                return True
            waiting += children(pid)
    return False


def _is_ready(pid: int, thread: str) -> bool:
    with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
        return file.read().rpartition(b") ")[2].startswith(b"R")


@dataclass
class _Seen:
    """A process at the time of a check."""

    parent: int
    started: bytes
    own_s: float
    #: CPU seconds of children the process has waited for, and in turn of their children.
    waited_s: float
    #: Estimated number of processes like this since the previous check, for each process seen:
    #: above 1 if this process started after the previous check.
    weight: float = 1.0

    @property
    def cpu_time_s(self) -> float:
        return self.own_s + self.waited_s

    def age_s(self, now: float) -> float:
        """Return the age in seconds, minus half a tick: the start is known to a tick only."""
        lived_s = now - (int(self.started) + 0.5) / _TICKS_PER_S
        return max(lived_s, self.own_s, _SHORTEST_LIFE_S)


def _see(pid: int) -> _Seen | None:
    """Return the current state of a process, or None if it is gone."""
    try:
        # A process chooses its name freely: it may hold any bytes, even brackets and line ends.
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        own_s = time.clock_gettime(~pid << 3 | _CPU_CLOCK)
    except OSError:
        return None
    waited_s = sum(map(int, fields[_WAITED])) / _TICKS_PER_S
    return _Seen(int(fields[_PARENT]), fields[_START], own_s, waited_s)


@dataclass
class _Debt:
    """CPU time of ended children, not yet in the account of their parent."""

    owed_s: float = 0.0
    weighed_s: float = 0.0
    paid_s: float = 0.0

    def settle(self, ended: list[_Seen], paid_s: float, hidden_s: float) -> float:
        """Add ended children and the seconds their parent paid; return the seconds lost for good.

        The parent may have paid up to `hidden_s` more than its counters show.
        """
        self.owed_s += sum(seen.cpu_time_s for seen in ended)
        self.weighed_s += sum(seen.cpu_time_s * seen.weight for seen in ended)
        self.paid_s += paid_s
        missing_s = self.owed_s - self.paid_s
        if 0.0 < missing_s <= hidden_s:
            return 0.0
        lost_s = missing_s * self.weighed_s / self.owed_s if missing_s > 0.0 else 0.0
        # A surplus comes from children never seen by a check. At most `hidden_s` of it is kept:
        # otherwise the surplus would hide later losses.
        self.owed_s = self.weighed_s = 0.0
        self.paid_s = min(hidden_s, -missing_s) if missing_s < 0.0 else 0.0
        return lost_s


class CpuCount:
    """The CPU time of all processes below a process, as long as the latter waits for none of them.

    If a parent waits for a process, the process is in the parent's account. If nobody waits for it
    (SIGCHLD is ignored), an ended process leaves no account: it counts with its CPU time at the
    last check, multiplied by its weight to stand for similar processes never seen. A program
    cannot foresee the times of checks, so the sum is right on average.
    """

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}
        self._looked = _now()
        self._debts: dict[int, _Debt] = {}
        self._lost_s = 0.0
        self._total_s = 0.0

    def look(self, pids: list[int]) -> float:
        """Return the CPU seconds so far; `pids` are the current processes."""
        found = {pid: seen for pid in pids if (seen := _see(pid)) is not None}
        now = _now()
        for pid in found.keys() - self._seen.keys():
            found[pid].weight = max(1.0, (now - self._looked) / found[pid].age_s(now))
        self._looked = now
        self._lost_s += self._find_lost_s(found)
        self._seen = found
        total_s = sum(seen.cpu_time_s for seen in found.values()) + self._lost_s
        self._total_s = max(self._total_s, total_s)  # ticks are cut off
        return self._total_s

    def total_s(self, reaped_s: float) -> float:
        """Return the total CPU seconds, once all processes have ended and been reaped."""
        return max(self._total_s, reaped_s + self._lost_s)

    def _find_lost_s(self, found: dict[int, _Seen]) -> float:
        """Return the CPU seconds of newly ended processes, missing from every living account."""
        owed: dict[int, list[_Seen]] = {}
        for pid, seen in self._seen.items():
            if not _is_same(found.get(pid), seen):
                owed.setdefault(self._living_ancestor(seen, found), []).append(seen)
        self._debts = {pid: debt for pid, debt in self._debts.items() if pid in found}
        lost_s = 0.0
        for pid in owed.keys() | self._debts.keys():
            debt = self._debts.setdefault(pid, _Debt())
            paid_s, hidden_s = 0.0, 0.0
            if pid in found and pid in self._seen:
                paid_s = found[pid].waited_s - self._seen[pid].waited_s
                hidden_s = _ROUNDING_S
            lost_s += debt.settle(owed.get(pid, []), paid_s, hidden_s)
        return lost_s

    def _living_ancestor(self, seen: _Seen, found: dict[int, _Seen]) -> int:
        """Return the nearest ancestor still alive. The root and unseen ancestors count as alive."""
        parent = seen.parent
        while parent in self._seen and not _is_same(found.get(parent), self._seen[parent]):
            parent = self._seen[parent].parent
        return parent


def _now() -> float:
    """Return the time on the clock of process start times."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _is_same(now: _Seen | None, then: _Seen) -> bool:
    return now is not None and now.started == then.started
