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
_SHORTEST_LIFE_S = 0.001
#: A program with more threads than this is taken for busy: looking at all would take long.
_MAX_THREADS = 256


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


def wants_cpu(root: int) -> bool:
    """Return whether a thread below `root` is ready to run.

    On a busy machine it may be ready for long and have used no CPU time.
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
    """A process at one look."""

    parent: int
    started: bytes
    own_s: float
    #: Of children that it has waited for, and theirs.
    waited_s: float
    #: How many of its kind there were since the look before, for each one that is seen: more than
    #: one if it began after that look.
    weight: float = 1.0

    @property
    def cpu_time_s(self) -> float:
        return self.own_s + self.waited_s

    def age_s(self, now: float) -> float:
        """How long it has lived. When it began is known to a tick: half of one is taken off."""
        lived_s = now - (int(self.started) + 0.5) / _TICKS_PER_S
        return max(lived_s, self.own_s, _SHORTEST_LIFE_S)


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


@dataclass
class _Debt:
    """CPU time of children that have ended, and is not yet in the account of their parent."""

    owed_s: float = 0.0
    weighed_s: float = 0.0
    paid_s: float = 0.0

    def settle(self, ended: list[_Seen], paid_s: float, hidden_s: float) -> float:
        """Take what has ended and what was paid since the last look; return what nobody pays.

        Up to `hidden_s` may have been paid and not be shown.
        """
        self.owed_s += sum(seen.cpu_time_s for seen in ended)
        self.weighed_s += sum(seen.cpu_time_s * seen.weight for seen in ended)
        self.paid_s += paid_s
        missing_s = self.owed_s - self.paid_s
        if 0.0 < missing_s <= hidden_s:
            return 0.0
        lost_s = missing_s * self.weighed_s / self.owed_s if missing_s > 0.0 else 0.0
        # Children that no look saw have paid too: that covers for no others later on.
        self.owed_s = self.weighed_s = 0.0
        self.paid_s = min(hidden_s, -missing_s) if missing_s < 0.0 else 0.0
        return lost_s


class CpuCount:
    """The CPU time of everything below a process that waits for none of it meanwhile.

    A process that its parent waits for is in the parent's account. One that nobody waits for
    (SIGCHLD is ignored) leaves no account when it ends: it counts with what it had used at the
    last look and, if it was seen once, for as many like it as went unseen. Looks come at times
    that a program cannot foresee, so this is right on average.
    """

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}
        self._looked = _now()
        self._debts: dict[int, _Debt] = {}
        self._lost_s = 0.0
        self._total_s = 0.0

    def look(self, pids: list[int]) -> float:
        """CPU seconds so far; `pids` are the processes that there are now."""
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
        """CPU seconds in all, once all has ended and was reaped."""
        return max(self._total_s, reaped_s + self._lost_s)

    def _find_lost_s(self, found: dict[int, _Seen]) -> float:
        """What has ended since the last look and is in no account of a process that lives."""
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
        """The nearest one that has not ended too; the root, or one not seen before, as it is."""
        parent = seen.parent
        while parent in self._seen and not _is_same(found.get(parent), self._seen[parent]):
            parent = self._seen[parent].parent
        return parent


def _now() -> float:
    """On the clock that the start of processes is told by."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _is_same(now: _Seen | None, then: _Seen) -> bool:
    return now is not None and now.started == then.started
