"""A slot's control group: memory and CPU time of a program's whole process tree.

Both versions of the interface work. Version 1 has separate hierarchies for memory and CPU time,
version 2 has a single hierarchy for both. The daemon opens the files before a slot's processes lose
sight of them; later writes go through the open descriptors.
"""

import glob
import os
import signal
import time
from contextlib import suppress

_V1, _V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
#: Hierarchies for CPU time in version 1.
_CPU_V1 = ("/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpu,cpuacct")
#: The limit, the current use, the peak use, the count of kills, and the allowance for swap.
_FILES_V1 = (
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.oom_control",
    "memory.swappiness",
)
_FILES_V2 = ("memory.max", "memory.current", "memory.peak", "memory.events", "memory.swap.max")
#: Index of the count of kills in both tuples.
_EVENTS = 3
_REMOVAL_ATTEMPTS = 100


class CpuAccount:
    """The CPU time of the members of a group."""

    def __init__(self, folder: str) -> None:
        """Open the counter of the group at `folder`; create the group first in version 1.

        Raises:
            OSError: this process may not, or nothing is counted there.
        """
        self._is_v1 = folder.startswith(_CPU_V1)
        self.folder = folder
        if self._is_v1:
            os.makedirs(folder, exist_ok=True)
        self._usage = _open(folder, "cpuacct.usage" if self._is_v1 else "cpu.stat", os.O_RDONLY)
        self._members = _open(folder, "cgroup.procs", os.O_WRONLY)

    @property
    def descriptors(self) -> set[int]:
        return {self._usage, self._members}

    def hold_slot(self) -> None:
        """Make a slot's first process a member in version 1, so programs are born in the group.

        Programs do not join it themselves: joining takes longer than all other work here.
        """
        if self._is_v1:
            os.write(self._members, b"0")

    def used_s(self) -> float:
        """Return the CPU seconds of all members so far, except this process."""
        if not self._is_v1:
            # usage_usec is the first line.
            return int(os.pread(self._usage, 64, 0).split(maxsplit=2)[1]) / 1e6
        own_s = time.process_time()
        return int(os.pread(self._usage, 64, 0)) / 1e9 - own_s


class Cgroup:
    """A control group: it limits and counts its members' memory, and counts their CPU time."""

    def __init__(self, folder: str) -> None:
        """Make the group of a slot at `folder`.

        Raises:
            OSError: this process may not.
        """
        self._folder = folder
        os.makedirs(folder, exist_ok=True)
        is_v1 = folder.startswith(_V1)
        limit, usage, peak, events, swapping = _FILES_V1 if is_v1 else _FILES_V2
        self._members = _open(folder, "cgroup.procs", os.O_WRONLY)
        self._limit = _open(folder, limit, os.O_WRONLY)
        self._usage = _open(folder, usage, os.O_RDONLY)
        self._usage_before = 0
        self._events = _open(folder, events, os.O_RDONLY)
        self._peak: int | None = None
        with suppress(OSError):  # kernels before 5.19, or before 6.12 for resetting it
            self._peak = _open(folder, peak, os.O_RDWR)
        with suppress(OSError):
            swap = _open(folder, swapping, os.O_WRONLY)
            os.write(swap, b"0")
            os.close(swap)
        #: None if the host does not grant a count of CPU time.
        self.cpu: CpuAccount | None = None
        with suppress(OSError):
            self.cpu = CpuAccount(_cpu_folder(folder) if is_v1 else folder)

    @property
    def descriptors(self) -> set[int]:
        found = (self._members, self._limit, self._usage, self._events, self._peak)
        cpu = set() if self.cpu is None else self.cpu.descriptors
        return {fd for fd in found if fd is not None} | cpu

    def limit(self, memory_bytes: int) -> None:
        """Set the memory limit of the next program, and restart the count."""
        os.pwrite(self._limit, b"%d" % memory_bytes, 0)
        if self._peak is not None:
            os.pwrite(self._peak, b"0", 0)
            self._usage_before = int(os.pread(self._usage, 64, 0))

    def join(self) -> None:
        """Put this process into the group."""
        os.write(self._members, b"0")

    def peak_bytes(self) -> int | None:
        """Return the peak memory in bytes since `limit`, without memory cached before; or None."""
        if self._peak is None:
            return None
        return max(0, int(os.pread(self._peak, 64, 0)) - self._usage_before)

    def num_killed(self) -> int:
        """Return the number of processes killed for memory since the group was made."""
        return num_killed(self._events)

    def close(self) -> None:
        for fd in self.descriptors:
            os.close(fd)
        _end_and_remove(self._folder)  # a member may take a moment to be gone
        if self.cpu is not None and self.cpu.folder != self._folder:
            _end_and_remove(self.cpu.folder)


def _open(folder: str, name: str, flags: int) -> int:
    return os.open(f"{folder}/{name}", flags | os.O_CLOEXEC)


def _cpu_folder(folder: str) -> str:
    """Return the version 1 CPU folder of the group with memory folder `folder`."""
    found = (parent for parent in _CPU_V1 if os.path.isdir(parent))
    return f"{next(found, _CPU_V1[0])}/{os.path.basename(folder)}"


def num_killed(events: int) -> int:
    """Return the count of kills in an open events file."""
    for line in os.pread(events, 4096, 0).splitlines():
        name, _, value = line.partition(b" ")
        if name == b"oom_kill":
            return int(value)
    return 0


def open_own_events() -> int | None:
    """Open the events file of this process's own group, as in a container; None if not visible."""
    for folder, events in ((_V1, _FILES_V1[_EVENTS]), (_own_v2(), _FILES_V2[_EVENTS])):
        with suppress(OSError):
            return os.open(f"{folder}/{events}", os.O_RDONLY | os.O_CLOEXEC)
    return None


def find_parent() -> str | None:
    """Return a parent folder for groups with a memory limit; None if this process may make none."""
    for parent in (_own_v2(), _V1):
        if parent is not None and _works(parent):
            return parent
    return None


def _own_v2() -> str | None:
    """Return this process's version 2 group: a parent for groups if it hands memory down."""
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
    """Make the group of a slot of this process, under a name known to `remove_left`."""
    return Cgroup(f"{parent}/assay-{os.getpid()}-{slot}")


def remove_left(pid: int) -> None:
    """End the processes left in the groups of a killed daemon, and remove the groups."""
    for folder in of_daemon(pid):
        _end_and_remove(folder)


def of_daemon(pid: int) -> list[str]:
    """Return the folders of the groups made by a daemon."""
    parents = (_own_v2(), _V1, *_CPU_V1)
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
