"""A slot's control group: memory of a program's whole tree, in either version of the interface.

Files are opened by the daemon, before a slot's processes lose the sight of them; what is written
later goes through the open descriptors.
"""

import glob
import os
import signal
import time
from contextlib import suppress

_V1, _V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
#: The limit, what is held, the most that was, the count of kills, and how much may be swapped.
_FILES_V1 = (
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.oom_control",
    "memory.swappiness",
)
_FILES_V2 = ("memory.max", "memory.current", "memory.peak", "memory.events", "memory.swap.max")
#: Where the count of kills stands among them.
_EVENTS = 3
_REMOVAL_ATTEMPTS = 100


class Cgroup:
    """Limits and counts what its members hold."""

    def __init__(self, folder: str) -> None:
        """Make the group of one slot below `folder`.

        Raises:
            OSError: this process may not.
        """
        self._folder = folder
        os.makedirs(folder, exist_ok=True)
        limit, usage, peak, events, swapping = _FILES_V1 if folder.startswith(_V1) else _FILES_V2
        self._members = self._open("cgroup.procs", os.O_WRONLY)
        self._limit = self._open(limit, os.O_WRONLY)
        self._usage = self._open(usage, os.O_RDONLY)
        self._usage_before = 0
        self._events = self._open(events, os.O_RDONLY)
        self._peak: int | None = None
        with suppress(OSError):  # kernels before 5.19, or before 6.12 for resetting it
            self._peak = self._open(peak, os.O_RDWR)
        with suppress(OSError):
            swap = self._open(swapping, os.O_WRONLY)
            os.write(swap, b"0")
            os.close(swap)

    def _open(self, name: str, flags: int) -> int:
        return os.open(f"{self._folder}/{name}", flags | os.O_CLOEXEC)

    @property
    def descriptors(self) -> set[int]:
        found = (self._members, self._limit, self._usage, self._events, self._peak)
        return {fd for fd in found if fd is not None}

    def limit(self, memory_bytes: int) -> None:
        """Set what the next program may hold, and start counting anew."""
        os.pwrite(self._limit, b"%d" % memory_bytes, 0)
        if self._peak is not None:
            os.pwrite(self._peak, b"0", 0)
            self._usage_before = int(os.pread(self._usage, 64, 0))

    def join(self) -> None:
        """Put this process into the group."""
        os.write(self._members, b"0")

    def peak_bytes(self) -> int | None:
        """The most that was held since `limit`; not what is cached from before."""
        if self._peak is None:
            return None
        return max(0, int(os.pread(self._peak, 64, 0)) - self._usage_before)

    def num_killed(self) -> int:
        """Processes killed for memory since the group was made."""
        return num_killed(self._events)

    def close(self) -> None:
        for fd in self.descriptors:
            os.close(fd)
        _end_and_remove(self._folder)  # a member may take a moment to be gone


def num_killed(events: int) -> int:
    """The count of kills in an open events file."""
    for line in os.pread(events, 4096, 0).splitlines():
        name, _, value = line.partition(b" ")
        if name == b"oom_kill":
            return int(value)
    return 0


def open_own_events() -> int | None:
    """The events file of the group that this process is in, as in a container; None if unseen."""
    for folder, events in ((_V1, _FILES_V1[_EVENTS]), (_own_v2(), _FILES_V2[_EVENTS])):
        with suppress(OSError):
            return os.open(f"{folder}/{events}", os.O_RDONLY | os.O_CLOEXEC)
    return None


def find_parent() -> str | None:
    """A folder below which this process may make groups with a memory limit; None if nowhere."""
    for parent in (_own_v2(), _V1):
        if parent is not None and _works(parent):
            return parent
    return None


def _own_v2() -> str | None:
    """This process's group in version 2, where memory is handed down to its children."""
    with open("/proc/self/cgroup") as file:
        for line in file:
            if line.startswith("0::"):
                return _V2 + line[3:].strip().rstrip("/")
    return None


def _works(parent: str) -> bool:
    trial = f"{parent}/assay-trial-{os.getpid()}"
    try:
        Cgroup(trial).close()
    except OSError:
        with suppress(OSError):
            os.rmdir(trial)
        return False
    return True


def of_slot(parent: str, slot: int) -> Cgroup:
    """Make the group of a slot of this process's, where `remove_left` finds it."""
    return Cgroup(f"{parent}/assay-{os.getpid()}-{slot}")


def remove_left(pid: int) -> None:
    """End what is left in the groups of a daemon that was killed, and remove them."""
    for folder in of_daemon(pid):
        _end_and_remove(folder)


def of_daemon(pid: int) -> list[str]:
    """The folders of the groups that a daemon has made."""
    parents = (_own_v2(), _V1)
    return [folder for parent in parents for folder in glob.glob(f"{parent}/assay-{pid}-*")]


def _end_and_remove(folder: str) -> None:
    for _ in range(_REMOVAL_ATTEMPTS):
        with suppress(OSError):
            os.rmdir(folder)
            return
        with suppress(OSError), open(f"{folder}/cgroup.procs") as members:
            for member in members:
                os.kill(int(member), signal.SIGKILL)
        time.sleep(0.01)
