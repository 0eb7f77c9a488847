"""Memory held by processes and their folders, on hosts without a control group to count it.

man pages: proc_pid_statm(5), proc_pid_maps(5).
"""

import os
from collections.abc import Iterable

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
#: Names of shared memory among a process's mappings, if the memory lies in no folder.
_SHARED = (b"/dev/zero (deleted)", b"/memfd:", b"/SYSV")
_FIELDS = 6


class MemoryCount:
    """Memory held by the processes of a program: a cheap upper bound, and the exact figure.

    Shared memory counts up to the largest extent ever mapped by a process, touched or not, for as
    long as any process maps a part of it.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        """Count `folders` too: each is an in-memory file system used by this program alone."""
        self._folders = folders
        self._shared_bytes: dict[bytes, int] = {}

    def bound_bytes(self, pids: Iterable[int]) -> int:
        """Return an upper bound in bytes for `pids`. A shared page counts for each process."""
        pages = sum(sum(_pages(pid)) for pid in pids)
        return pages * _PAGE_BYTES + self._in_folders()

    def held_bytes(self, pids: Iterable[int]) -> int:
        """Return the bytes held by `pids`.

        Private pages count once, except for processes not open to this process.
        """
        private, mapped = 0, dict[bytes, int]()
        for pid in pids:
            private += _private_bytes(pid)
            for name, size in _shared_mappings(pid):
                mapped[name] = max(size, mapped.get(name, 0), self._shared_bytes.get(name, 0))
        self._shared_bytes = mapped
        # Files of the folders may be mapped too: `mapped` leaves them out.
        return private + sum(mapped.values()) + self._in_folders()

    def _in_folders(self) -> int:
        facts = map(os.statvfs, self._folders)
        return sum((fact.f_blocks - fact.f_bfree) * fact.f_frsize for fact in facts)


def _pages(pid: int) -> tuple[int, int]:
    """Return a process's private resident pages, and a bound for its shared pages.

    The bound is all mapped pages without data and text. Both are 0 for an ended process.
    """
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            size, resident, shared, text, _, data, _ = map(int, file.read().split())
    except OSError:
        return 0, 0
    return resident - shared, max(0, size - text - data)


def _private_bytes(pid: int) -> int:
    """Return a process's share in bytes of its private pages. Other processes may have some too."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss_Anon:"):
                    return int(line.split()[1]) * 1024
    except ProcessLookupError:  # it has just ended
        return 0
    except OSError:  # not open to this process
        pass
    return _pages(pid)[0] * _PAGE_BYTES


def _shared_mappings(pid: int) -> list[tuple[bytes, int]]:
    """Return the identity and the extent in bytes of each shared mapping of a process."""
    found = []
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                fields = line.split(maxsplit=_FIELDS - 1)
                if len(fields) == _FIELDS and fields[5].startswith(_SHARED):
                    start, _, end = fields[0].partition(b"-")
                    size = int(end, 16) - int(start, 16) + int(fields[2], 16)
                    found.append((fields[3] + fields[4], size))
    except PermissionError:  # not open to this process: all its mappings may be shared
        return [(b"%d" % pid, _pages(pid)[1] * _PAGE_BYTES)]
    except OSError:  # it has just ended
        pass
    return found
