"""A slot's control group: memory and CPU time of a program's whole tree, in either version of the
interface. Version 1 has a hierarchy for each of the two, version 2 has one for both.

Files are opened by the daemon, before a slot's processes lose the sight of them; what is written
later goes through the open descriptors.
"""

import glob
import os
import signal
import time
from contextlib import suppress

_V1, _V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
#: Where version 1 counts CPU time.
_CPU_V1 = ("/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpu,cpuacct")
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


class CpuAccount:
    """The CPU time of the members of a group."""

    def __init__(self, folder: str) -> None:
        """Open the counter of the group at `folder`, which is made where it is one of version 1.

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
        """Make a slot's first process a member, where programs do not join this group themselves.

        They are born in it: to join a group takes longer than all else that is done here.
        """
        if self._is_v1:
            os.write(self._members, b"0")

    def used_s(self) -> float:
        """CPU seconds of all members so far, but for this process."""
        if not self._is_v1:
            # usage_usec is the first line.
            return int(os.pread(self._usage, 64, 0).split(maxsplit=2)[1]) / 1e6
        own_s = time.process_time()
        return int(os.pread(self._usage, 64, 0)) / 1e9 - own_s


class Cgroup:
    """Limits and counts what its members hold, and counts the CPU time that they use."""

    def __init__(self, folder: str) -> None:
        """Make the group of one slot below `folder`.

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
        #: None where the host does not grant it.
        self.cpu: CpuAccount | None = None
        with suppress(OSError):
            self.cpu = CpuAccount(_cpu_folder(folder) if is_v1 else folder)

    @property
    def descriptors(self) -> set[int]:
        found = (self._members, self._limit, self._usage, self._events, self._peak)
        cpu = set() if self.cpu is None else self.cpu.descriptors
        return {fd for fd in found if fd is not None} | cpu

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
        if self.cpu is not None and self.cpu.folder != self._folder:
            _end_and_remove(self.cpu.folder)


def _open(folder: str, name: str, flags: int) -> int:
    return os.open(f"{folder}/{name}", flags | os.O_CLOEXEC)


def _cpu_folder(folder: str) -> str:
    """Where version 1 counts the CPU time of the group whose memory is counted at `folder`."""
    found = (parent for parent in _CPU_V1 if os.path.isdir(parent))
    return f"{next(found, _CPU_V1[0])}/{os.path.basename(folder)}"


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
