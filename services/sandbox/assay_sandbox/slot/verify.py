"""Check of a slot after each program: its state must equal the state at its start.

A program could leave traces in its slot's first process, or in the folders shared by all programs
of the slot. Both are compared with their state at the start. A difference is not repaired: the slot
is given up, and built again.
"""

import os
import select
import signal

from assay_sandbox.slot.accounting import tree

#: More than the content of each file.
_LIMITS_BYTES, _ADJUSTMENT_BYTES = 4096, 16


class Unclean(Exception):
    """A program has left a trace: the slot cannot be used again."""


class Baseline:
    """The state of a slot's first process when it was ready."""

    def __init__(self, folders: tuple[str, ...], *, has_namespaces: bool, is_alone: bool) -> None:
        """Read the state for later comparison.

        With `is_alone`, this process has a pid namespace to itself.
        """
        self._is_alone = is_alone
        #: True if the folders are in-memory file systems: their size grows with their entries.
        self._shows_entries = has_namespaces
        self._state = {folder: _state(folder) for folder in folders}
        self._schedule = _schedule()
        self._limits = os.open("/proc/self/limits", os.O_RDONLY | os.O_CLOEXEC)
        self._limited = os.pread(self._limits, _LIMITS_BYTES, 0)
        self._adjustment = os.open("/proc/self/oom_score_adj", os.O_RDONLY | os.O_CLOEXEC)
        self._adjusted = os.pread(self._adjustment, _ADJUSTMENT_BYTES, 0)
        self._mounts: select.poll | None = None
        if has_namespaces:
            self._mountinfo = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
            self._mounts = select.poll()
            # The kernel signals POLLPRI after every mount or unmount in this namespace.
            self._mounts.register(self._mountinfo, select.POLLPRI)
            self._mounts.poll(0)

    def is_empty(self, folder: str) -> bool:
        """Return True if a folder is known to be empty, without listing it."""
        return self._shows_entries and os.lstat(folder).st_size == self._state[folder][-1]

    def check(self) -> None:
        """Compare the current state with the state at the start.

        Raises:
            Unclean: a difference, named in the message.
        """
        if os.pread(self._limits, _LIMITS_BYTES, 0) != self._limited:
            raise Unclean("the limits of the first process have changed")
        for folder, state in self._state.items():
            self._check_folder(folder, state)
        self._check_processes()
        if self._mounts is not None and self._mounts.poll(0):
            raise Unclean("a mount has changed")
        if _schedule() != self._schedule:
            raise Unclean("the scheduling of the first process has changed")
        if os.pread(self._adjustment, _ADJUSTMENT_BYTES, 0) != self._adjusted:
            raise Unclean("the oom_score_adj of the first process has changed")

    def _check_folder(self, folder: str, state: tuple[int, ...]) -> None:
        try:
            now, attributes = _state(folder), os.listxattr(folder)
            is_empty = now[-1] == state[-1] if self._shows_entries else not os.listdir(folder)
        except OSError as error:
            raise Unclean(f"{folder} cannot be read: {error.strerror}") from None
        if now[:-1] != state[:-1]:
            raise Unclean(f"{folder} has another owner or mode, or is another folder")
        if attributes:
            raise Unclean(f"{folder} has extended attributes")
        if not is_empty:
            raise Unclean(f"{folder} is not empty")

    def _check_processes(self) -> None:
        if self._is_alone:
            try:
                os.kill(-1, 0)
            except ProcessLookupError:
                return
        elif not tree.children(os.getpid()):
            return
        raise Unclean("a process of a program is left")


def forget_handlers() -> None:
    """Reset all handlers and unblock all signals: a program of the same user may send any."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _state(folder: str) -> tuple[int, ...]:
    """Return a folder's identity, mode, owner, group and, last, its size in bytes."""
    found = os.lstat(folder)
    return (found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_gid, found.st_size)


def _schedule() -> tuple[object, ...]:
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    return os.sched_getscheduler(0), nice, os.sched_getaffinity(0)
