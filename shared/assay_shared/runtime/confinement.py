"""Confinement of a process that opens files by strangers, such as pickles.

The process gives up its network and the right to gain privileges, takes limits on processor time
and memory, and, where the kernel has Landlock, the right to run programs and to write anywhere but
in one folder. The caller starts it without the secrets of its environment.
"""

import ctypes
import os
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from assay_shared.errors import WeightsRefused

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_CLONE_NEWNET, _CLONE_NEWUSER = 0x40000000, 0x10000000
#: Numbers of Landlock's system calls, the same on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH = 1, 1
#: Landlock's rights of its first version: running a program, and all that changes files.
_EXECUTE, _WRITE_FILE = 1 << 0, 1 << 1
_CHANGE = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
_PASSED_ON = ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR", "OMP_NUM_THREADS")


def run_confined(
    module: str, arguments: Sequence[str], limit_s: float, *, refusal: str, said: int = 500
) -> None:
    """Run a module of ours as a process, which calls `confine` before it opens any file.

    Args:
        limit_s: its processor time; its last argument.
        refusal: the beginning of the message if it fails.
        said: the most characters shown of the process's last line.

    Raises:
        WeightsRefused: the process failed.
    """
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments, str(int(limit_s))],
            env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=10 * limit_s + 60,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise WeightsRefused(f"{refusal}: it takes more than {error.timeout:.0f} s") from None
    if done.returncode != 0:
        lines = done.stderr[-4000:].decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"it ended with {done.returncode}"
        raise WeightsRefused(f"{refusal}: {reason[:said]}")


def confine(limit_s: int, writable: Path, most_bytes: int | None = None) -> None:
    """Confine this process for good.

    Args:
        limit_s: processor time, in seconds.
        writable: the only folder that it may write to.
        most_bytes: memory, without the pages of mapped files.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        libc.unshare(_CLONE_NEWNET)
    elif libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        # Without a mapping of users this process could not write its output.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
    os.environ["TMPDIR"] = str(writable)  # libraries look for a place that they may write to
    _restrict_files(libc, writable)


def has_landlock() -> bool:
    """Return True if this kernel can restrict a process's files."""
    return _version(ctypes.CDLL(None, use_errno=True)) > 0


def _version(libc: ctypes.CDLL) -> int:
    return int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION))


def _restrict_files(libc: ctypes.CDLL, writable: Path) -> None:
    """Forbid to run programs and to write, but in `writable`; without Landlock, do nothing."""
    if _version(libc) <= 0:
        return
    handled = struct.pack("Q", _EXECUTE | _CHANGE)
    rules = libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0)
    try:
        _allow(libc, rules, writable, _CHANGE)
        _allow(libc, rules, Path(os.devnull), _WRITE_FILE)  # libraries open it
        libc.syscall(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, place: Path, rights: int) -> None:
    fd = os.open(place, os.O_PATH)
    try:
        libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)
