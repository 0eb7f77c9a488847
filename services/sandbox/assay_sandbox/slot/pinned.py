"""Lets fork(2) itself copy the pages that every program writes to, because they are pinned.

A page that both sides of a fork share is copied by a page fault, when one side first writes to it.
Python writes to each object that it uses, so the same few hundred pages are copied for each
program, with a fault for each. A page that is pinned for a device must not be shared: the kernel
copies it while it forks, and neither side has a fault. io_uring pins the memory that is registered
with it as buffers; nothing else of it is used. A program cannot tell, but by the time it takes.
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

#: What is written to by this program is written to by all.
_PROGRAM = "print()"
_LIMITS = {"cpu_time_s": 5.0, "memory_bytes": 2**29, "file_bytes": 2**24, "processes": 16}
_TIMEOUT_S = 5.0
#: By number, the same on every machine.
_IO_URING_SETUP, _IO_URING_REGISTER = 425, 427
_REGISTER_BUFFERS = 0
#: Of the structure that io_uring_setup(2) fills.
_PARAMETERS_BYTES = 120
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: Of a page in /proc/PID/pagemap: proc(5).
_ENTRY = struct.Struct("Q")
_PRESENT, _OF_FILE, _EXCLUSIVE = 1 << 63, 1 << 61, 1 << 56
#: Of io_uring_register(2): address and length.
_BUFFER = struct.Struct("QQ")

#: First address, and the one after the last.
Range = tuple[int, int]
#: Turns a fork into a program: takes a request and the descriptors that come with it.
Become = Callable[[dict[str, object], list[int]], None]


def pin_what_programs_write(become: Become) -> int | None:
    """Run a small program, and pin what it had to copy, until the returned descriptor is closed.

    Returns None where the host refuses that: forks take longer there, and do the same.
    """
    try:
        return _pin(_copied_by_program(become))
    except OSError:
        return None


def be_program(plan: dict[str, Any], record_fd: int, _: int | None) -> int:
    """Be a program to its end, and then record the kernel's entries for the pages in its plan."""
    path = f"{os.getcwd()}/{harness.SCRIPT}"
    status = harness.be_program(plan["code"].encode(), path, [harness.SCRIPT], record_fd)
    os.write(record_fd, _read_entries(plan["ranges"]))
    return status


def _copied_by_program(become: Become) -> list[Range]:
    """Return the memory of this process that a program has a copy of when it ends."""
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
    # It may have been killed, on a host that is too busy for it.
    return _copied(ranges, before, after) if len(after) == len(before) else []


def _memory_file() -> BinaryIO:
    return open(os.memfd_create("rehearsal"), "w+b", buffering=0)


def _writable_ranges() -> list[Range]:
    """Return the private memory that this process may write to."""
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
    """Return the memory that a fork shared and has a copy of.

    `before` are the parent's entries at the fork, `after` the child's at its end.
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
