"""Landlock: limits a program to certain files; needs no privilege. man page: landlock(7)."""

import ctypes
import os

from assay_sandbox.slot.confinement import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE = 1 << 14
#: Rights known to each version of the interface: 13, then refer, truncate and ioctl.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_NET_VERSION, SCOPE_VERSION = 4, 6
_TCP_RIGHTS = 3
#: From `SCOPE_VERSION` on, abstract sockets and signals end at the ruleset's border.
_SCOPES, _SIGNALS = 3, 2


class _Ruleset(ctypes.Structure):
    _fields_ = [
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    ]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def version() -> int:
    """Return the interface's version on this kernel, or 0 if the kernel has none."""
    return max(0, kernel.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


def make_ruleset(readable: list[str], writable: list[str]) -> int:
    """Return a descriptor of rules: all other files are out of reach, and TCP from version 4 on.

    Raises:
        OSError: the kernel has no landlock.
    """
    known = version()
    rights = max(r for v, r in _FILE_RIGHTS.items() if v <= max(known, 1))
    ruleset = _Ruleset(
        rights,
        _TCP_RIGHTS if known >= _NET_VERSION else 0,
        _SCOPES if known >= SCOPE_VERSION else 0,
    )
    size = 24 if known >= SCOPE_VERSION else 16 if known >= _NET_VERSION else 8
    fd = kernel.check(
        kernel.syscall(_CREATE_RULESET, ctypes.byref(ruleset), size, 0), "landlock_create_ruleset"
    )
    for path in readable:
        _allow(fd, path, _EXECUTE | _READ_FILE | _READ_DIR)
    for path in writable:
        _allow(fd, path, rights)
    return fd


def _allow(ruleset_fd: int, path: str, rights: int) -> None:
    if not os.path.exists(path):
        return
    if not os.path.isdir(path):
        rights &= _OF_FILES
    with kernel.opened(path, os.O_PATH) as parent:
        rule = _PathBeneath(rights, parent)
        result = kernel.syscall(_ADD_RULE, ruleset_fd, _PATH_BENEATH, ctypes.byref(rule), 0)
        kernel.check(result, f"landlock_add_rule {path}")


def restrict_signals() -> None:
    """Confine signals of this process and its later descendants to these processes.

    Needs `SCOPE_VERSION` and no_new_privs.
    """
    ruleset = _Ruleset(scoped=_SIGNALS)
    size = ctypes.sizeof(ruleset)
    fd = kernel.syscall(_CREATE_RULESET, ctypes.byref(ruleset), size, 0)
    restrict(kernel.check(fd, "landlock_create_ruleset"))
    os.close(fd)


def restrict(ruleset_fd: int) -> None:
    """Apply the rules to this process and its later descendants; needs no_new_privs."""
    kernel.check(kernel.syscall(_RESTRICT_SELF, ruleset_fd, 0), "landlock_restrict_self")
