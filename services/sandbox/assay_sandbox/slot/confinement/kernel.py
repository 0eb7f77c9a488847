"""Linux calls missing from Python, by ctypes. Each raises OSError with the call's name.

man pages: clone(2), mount(2), pivot_root(2), prctl(2), capabilities(7).
"""

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
_MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_PR_SET_SECUREBITS = 28
_NO_ROOT_LOCKED = 3
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
#: Indices of fields after the name in /proc/PID/stat: each area's start and end; proc(5).
_ARGUMENTS, _ENVIRONMENT = (45, 46), (47, 48)
_SHOWN_NAME = b"assay_sandbox.slot"
_CAP_VERSION_3 = 0x20080522
_SIGCHLD = 17
_LAST_CAPABILITY = 40

_MACHINE = os.uname().machine
_CLONE3 = 435
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(_MACHINE, -1)
_CAPSET = {"x86_64": 126, "aarch64": 91}.get(_MACHINE, -1)

_libc = ctypes.CDLL(None, use_errno=True)
#: Keeps the interpreter's lock: a child must not be born while the lock is free.
_syscall_locked = ctypes.PyDLL(None, use_errno=True).syscall


def check(result: int, what: str) -> int:
    """Return the result of a call, or raise the error it left in errno."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: object) -> int:
    """Make a raw system call and return its result; -1 and errno on failure."""
    return int(_libc.syscall(number, *arguments))


class _CloneArguments(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in [
            "flags",
            "pidfd",
            "child_tid",
            "parent_tid",
            "exit_signal",
            "stack",
            "stack_size",
            "tls",
            "set_tid",
            "set_tid_size",
            "cgroup",
        ]
    ]


def clone(flags: int) -> int:
    """Fork into new namespaces; return the child's pid, or 0 in the child.

    For processes with a single thread only.
    """
    arguments = _CloneArguments(flags=flags, exit_signal=_SIGCHLD)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = int(_syscall_locked(_CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments)))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return check(pid, "clone3")


def unshare(flags: int) -> None:
    check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    check(result, f"mount {target}")


def change_root(new_root: str) -> None:
    """Make a mounted folder the root, and unmount the old root."""
    os.chdir(new_root)
    # Both arguments are the same place: the old root ends up on top, and is unmounted.
    check(syscall(_PIVOT_ROOT, b".", b"."), "pivot_root")
    check(_libc.umount2(b".", _MNT_DETACH), "umount the old root")
    os.chdir("/")


def flush_streams() -> None:
    """Write the output buffered by libraries in C, as exit(3) does."""
    _libc.fflush(None)


def die_with_parent() -> None:
    check(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl PDEATHSIG")


def ignore_setuid_root() -> None:
    """Prevent exec, below this process, from giving user 0 of its namespace any capability."""
    check(_libc.prctl(_PR_SET_SECUREBITS, _NO_ROOT_LOCKED, 0, 0, 0), "prctl SECUREBITS")


def raise_loopback() -> None:
    """Bring up the loopback interface, the only interface of a new network namespace."""
    request = struct.pack("16sH22x", b"lo", _IFF_UP)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, request)


def hide_arguments() -> None:
    """Overwrite the command line and the first environment of this process, as shown by /proc.

    The change covers the process and its forks.
    """
    kept = dict(os.environ)
    os.environ.clear()  # no variable may point into the overwritten memory
    os.environ.update(kept)
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    for name, (first, last) in ((_SHOWN_NAME, _ARGUMENTS), (b"", _ENVIRONMENT)):
        start, end = int(fields[first]), int(fields[last])
        if end - start > len(name):  # both are 0 if the kernel does not tell
            ctypes.memset(start, 0, end - start)
            ctypes.memmove(start, name, len(name))


def die_first() -> None:
    """Make the kernel end this process and its descendants first when memory runs out."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def hide_memory(hidden: bool) -> None:
    """Close this process's memory and /proc/PID to others of its user, or open them again."""
    check(_libc.prctl(_PR_SET_DUMPABLE, 0 if hidden else 1, 0, 0, 0), "prctl DUMPABLE")


def adopt_orphans() -> None:
    """Become the parent of descendants when their parent ends."""
    check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl CHILD_SUBREAPER")


def forbid_new_privileges() -> None:
    check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl NO_NEW_PRIVS")


def drop_bounding_set(kept: frozenset[int]) -> None:
    """Prevent every exec below this process from ever gaining a capability not in `kept`."""
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in kept:
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def drop_capabilities() -> None:
    """Give up every capability now held."""
    header = (ctypes.c_uint32 * 2)(_CAP_VERSION_3, 0)
    check(syscall(_CAPSET, header, (ctypes.c_uint32 * 6)()), "capset")


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class SyscallFilter:
    """A compiled seccomp program, ready to be put on."""

    def __init__(self, program: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(program, len(program))
        address = ctypes.cast(self._buffer, ctypes.c_void_p)
        self._program = _FilterProgram(len(program) // 8, address)

    def put_on(self) -> None:
        """Apply the filter to this process and its later descendants; needs no_new_privs."""
        pointer = ctypes.byref(self._program)
        check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, pointer, 0, 0), "prctl SECCOMP")


def close_all_but(kept: set[int]) -> None:
    """Close every descriptor from 3 up, except those in `kept`."""
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, 2**31 - 1)


@contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """Open `path` for the block, and yield its descriptor."""
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
