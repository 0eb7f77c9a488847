"""What processes and their folders hold in memory, where no control group counts it.

man pages: proc_pid_statm(5), proc_pid_maps(5).
"""

import os
from collections.abc import Iterable

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
#: How memory that processes share is named among a process's mappings, where no folder has it.
_SHARED = (b"/dev/zero (deleted)", b"/memfd:", b"/SYSV")
_FIELDS = 6


class MemoryCount:
    """What the processes of one program hold: a cheap bound first, what is exact when it matters.

    Shared memory counts as far as any process has ever mapped it, touched or not, for as long as
    one maps any of it.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        """`folders` are in memory, a file system each, and the program's alone."""
        self._folders = folders
        self._shared_bytes: dict[bytes, int] = {}

    def bound_bytes(self, pids: Iterable[int]) -> int:
        """What they may hold at most. Pages of several processes count for each of them."""
        pages = sum(sum(_pages(pid)) for pid in pids)
        return pages * _PAGE_BYTES + self._in_folders()

    def held_bytes(self, pids: Iterable[int]) -> int:
        """What they hold. Private pages count once, but for processes that do not let us look."""
        private, mapped = 0, dict[bytes, int]()
        for pid in pids:
            private += _private_bytes(pid)
            for name, size in _shared_mappings(pid):
                mapped[name] = max(size, mapped.get(name, 0), self._shared_bytes.get(name, 0))
        self._shared_bytes = mapped
        # What is in a folder may be mapped too.
        return private + sum(mapped.values()) + self._in_folders()

    def _in_folders(self) -> int:
        facts = map(os.statvfs, self._folders)
        return sum((fact.f_blocks - fact.f_bfree) * fact.f_frsize for fact in facts)


def _pages(pid: int) -> tuple[int, int]:
    """Private pages that a process holds, and pages of all that it maps and is neither its data
    nor its text: a bound for the shared ones. None of a process that has ended.
    """
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            size, resident, shared, text, _, data, _ = map(int, file.read().split())
    except OSError:
        return 0, 0
    return resident - shared, max(0, size - text - data)


def _private_bytes(pid: int) -> int:
    """A process's part of the private pages that it has, some of which others may have too."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss_Anon:"):
                    return int(line.split()[1]) * 1024
    except ProcessLookupError:  # it has just ended
        return 0
    except OSError:  # it does not let us
        pass
    return _pages(pid)[0] * _PAGE_BYTES


def _shared_mappings(pid: int) -> list[tuple[bytes, int]]:
    """The shared memory that a process maps: which, and how far."""
    found = []
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                fields = line.split(maxsplit=_FIELDS - 1)
                if len(fields) == _FIELDS and fields[5].startswith(_SHARED):
                    start, _, end = fields[0].partition(b"-")
                    size = int(end, 16) - int(start, 16) + int(fields[2], 16)
                    found.append((fields[3] + fields[4], size))
    except PermissionError:  # it does not let us: all that it maps may be
        return [(b"%d" % pid, _pages(pid)[1] * _PAGE_BYTES)]
    except OSError:  # it has just ended
        pass
    return found
