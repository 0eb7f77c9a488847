"""Pinned pages: fork(2) itself copies the pages written by every program.

After a fork, the first write to a shared page by either side copies the page in a page fault.
Python writes to each object it uses, so the same few hundred pages are copied for each program,
with a fault for each. A page pinned for a device must not be shared: the kernel copies it during
the fork, and neither side has a fault. io_uring pins memory registered as its buffers; nothing else
of io_uring is used. A program can notice the pinning only by the time it takes.
"""

import ctypes
import marshal
import os
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, BinaryIO

from assay_sandbox.slot.accounting import tree
from assay_sandbox.slot.confinement import kernel
from assay_sandbox.slot.program import ending, harness

#: Every program writes to the pages this program writes to.
_PROGRAM = "print()"
_LIMITS = {"cpu_time_s": 5.0, "memory_bytes": 2**29, "file_bytes": 2**24, "processes": 16}
_TIMEOUT_S = 5.0
#: Numbers of the system calls, the same on every machine.
_IO_URING_SETUP, _IO_URING_REGISTER = 425, 427
_REGISTER_BUFFERS = 0
#: Size of the structure filled by io_uring_setup(2).
_PARAMETERS_BYTES = 120
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: Entry of a page in /proc/PID/pagemap: proc(5).
_ENTRY = struct.Struct("Q")
_PRESENT, _OF_FILE, _EXCLUSIVE = 1 << 63, 1 << 61, 1 << 56
#: Buffer of io_uring_register(2): address and length.
_BUFFER = struct.Struct("QQ")

#: First address, and the address after the last.
Range = tuple[int, int]
#: Turns a fork into a program: takes a request and its descriptors.
Become = Callable[[dict[str, object], list[int]], None]


def pin_what_programs_write(become: Become) -> int | None:
    """Run a small program and pin the pages it copied, until the returned descriptor is closed.

    Returns None if the host refuses: forks then take longer, with the same result.
    """
    try:
        return _pin(_copied_by_program(become))
    except OSError:
        return None


def be_program(plan: dict[str, Any], record_fd: int, _: int | None) -> int:
    """Run a program to its end, then record the kernel's entries for the pages in its plan."""
    path = f"{os.getcwd()}/{harness.SCRIPT}"
    status = harness.be_program(plan["code"].encode(), path, [harness.SCRIPT], record_fd)
    os.write(record_fd, _read_entries(plan["ranges"]))
    return status


def _copied_by_program(become: Become) -> list[Range]:
    """Return the memory of this process copied by a program by the time it ends."""
    ranges = _writable_ranges()
    with _memory_file() as streams, _memory_file() as record, _memory_file() as plan:
        facts = {"code": _PROGRAM, "part": "pages", "ranges": ranges, "limits": _LIMITS}
        plan.write(marshal.dumps(facts | {"files": {}, "command": []}))
        plan.seek(0)
        standard = [streams.fileno()] * 3
        before = _read_entries(ranges)
        ending.prepare_begin()
        pid = os.fork()
        if pid == 0:
            request = {"limits": _LIMITS, "num_cases": 0, "has_channel": False}
            become(request, [*standard, record.fileno(), plan.fileno()])
        tree.end(pid, _TIMEOUT_S)
        record.seek(0)
        after = record.read()
    with suppress(FileNotFoundError):
        os.unlink(harness.SCRIPT)
    # On a busy host the program may have been killed at its timeout.
    return _copied(ranges, before, after) if len(after) == len(before) else []


def _memory_file() -> BinaryIO:
    return open(os.memfd_create("rehearsal"), "w+b", buffering=0)


def _writable_ranges() -> list[Range]:
    """Return the private writable memory of this process."""
    found = []
    with open("/proc/self/maps") as file:
        for line in file:
            place, rights = line.split(maxsplit=2)[:2]
            if rights == "rw-p":
                start, _, end = place.partition("-")
                found.append((int(start, 16), int(end, 16)))
    return found


def _read_entries(ranges: Iterable[Range]) -> bytes:
    """Return the kernel's entry for each page of this process in `ranges`."""
    scale = _PAGE_BYTES // _ENTRY.size
    with kernel.opened("/proc/self/pagemap", os.O_RDONLY) as fd:
        return b"".join(
            os.pread(fd, (end - start) // scale, start // scale) for start, end in ranges
        )


def _copied(ranges: Iterable[Range], before: bytes, after: bytes) -> list[Range]:
    """Return the memory shared at a fork and copied since.

    `before` are the parent's entries at the fork, `after` the child's entries at its end.
    """
    found: list[Range] = []
    addresses = (address for start, end in ranges for address in range(start, end, _PAGE_BYTES))
    entries = zip(_ENTRY.iter_unpack(before), _ENTRY.iter_unpack(after), strict=True)
    for address, ((old,), (new,)) in zip(addresses, entries, strict=True):
        if not old & _PRESENT or (old | new) & _OF_FILE or not new & _EXCLUSIVE:
            continue
        start = found.pop()[0] if found and found[-1][1] == address else address
        found.append((start, address + _PAGE_BYTES))
    return found


def _pin(ranges: list[Range]) -> int:
    parameters = ctypes.create_string_buffer(_PARAMETERS_BYTES)
    fd = kernel.check(kernel.syscall(_IO_URING_SETUP, 1, parameters), "io_uring_setup")
    buffers = b"".join(_BUFFER.pack(start, end - start) for start, end in ranges)
    try:
        result = kernel.syscall(_IO_URING_REGISTER, fd, _REGISTER_BUFFERS, buffers, len(ranges))
        kernel.check(result, "io_uring_register")
    except OSError:
        os.close(fd)
        raise
    return fd
