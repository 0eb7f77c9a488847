"""The root folder of slots: a few read-only folders of the host, and three writable folders."""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from assay_sandbox.slot.confinement import kernel

#: Start folder and home of a program.
WORK = "/w"
#: Folders a program may write to.
WRITABLE = (WORK, "/tmp", "/dev/shm")
#: Folder of the programs' interpreter: a virtual environment.
PYTHON = "/python"
#: Shows host files from below a writable folder: the slot's own folder would cover them.
_MOVED = "/shown"
#: The parts of interpreters and compilers, shown if the host has them.
SHOWN = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
)
_DEVICES = ("null", "zero", "full", "random", "urandom")
_FILES = {
    "etc/passwd": "root:x:0:0::/:/bin/false\nprogram:x:1000:1000::/w:/bin/sh\n",
    "etc/group": "root:x:0:\nprogram:x:1000:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}
_LINKS = {
    "dev/fd": "/proc/self/fd",
    "dev/stdin": "/proc/self/fd/0",
    "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2",
    "mnt": "/tmp",
}
#: Entries of a folder held in memory at a time while it is emptied.
_AT_ONCE = 4096
_MAX_WORK_FOLDERS = 64
#: Flags a mount keeps when it is made read-only; they may be locked.
_KEPT_FLAGS = {8: kernel.MS_NOEXEC, 1024: 0x400, 2048: 0x800, 4096: 0x200000}


def place_of(path: str) -> str:
    """Return the path in slots of a host path shown to them.

    It is the same path, unless a folder writable by programs would cover it.
    """
    return _MOVED + path if path.startswith(tuple(f"{one}/" for one in WRITABLE)) else path


def build(root: str, extra: list[str], python_home: str) -> None:
    """Build the tree at `root`, in this process's own mount namespace."""
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", root, "tmpfs", kernel.MS_NOSUID, "size=4m,nr_inodes=4k,mode=755")
    for folder in ("etc", "proc", "dev", *(path.lstrip("/") for path in WRITABLE)):
        os.makedirs(f"{root}/{folder}", exist_ok=True)
    for path in (*SHOWN, *extra):
        _show(path, root + place_of(path))
    _show(python_home, root + PYTHON)
    for device in _DEVICES:
        target = f"{root}/dev/{device}"
        _touch(target)
        kernel.mount(f"/dev/{device}", target, flags=kernel.MS_BIND)
    for name, text in _FILES.items():
        with open(f"{root}/{name}", "w") as file:
            file.write(text)
    for name, target in _LINKS.items():
        if not os.path.lexists(f"{root}/{name}"):  # a host path may be shown below it
            os.symlink(target, f"{root}/{name}")
    kernel.mount("", root, flags=kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY)


def _show(path: str, target: str) -> None:
    if os.path.lexists(target) or not os.path.exists(path):
        return  # the host lacks it, or a folder above it is shown
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.mkdir(target)
    else:
        _touch(target)
    kernel.mount(path, target, flags=kernel.MS_BIND | kernel.MS_REC)
    kept = os.statvfs(target).f_flag
    flags = sum(flag for bit, flag in _KEPT_FLAGS.items() if kept & bit)
    kernel.mount(
        "",
        target,
        flags=kernel.MS_BIND
        | kernel.MS_REMOUNT
        | kernel.MS_RDONLY
        | kernel.MS_NOSUID
        | kernel.MS_NODEV
        | flags,
    )


def _touch(path: str) -> None:
    with open(path, "w"):
        pass


def enter(root: str, writable_bytes: int) -> None:
    """Make the tree this process's root, with its own writable folders and /proc."""
    kernel.mount(root, root, flags=kernel.MS_BIND | kernel.MS_REC)
    # Before the old root goes: a process may mount /proc only while it sees a /proc.
    mount_own(writable_bytes, root)
    kernel.change_root(root)


def mount_own(writable_bytes: int, root: str = "") -> None:
    """Mount empty writable folders, and a /proc with the processes of this namespace."""
    options = f"size={writable_bytes},nr_inodes=8k,mode=1777"
    for folder in WRITABLE:
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        kernel.mount("tmpfs", root + folder, "tmpfs", flags, options)
    # Read-only: a writable oom_score_adj would let a program choose the OOM killer's victim.
    flags = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("proc", f"{root}/proc", "proc", flags)


def wipe(folder: str) -> None:
    """Remove all contents of a folder, at any depth, without following links out of it.

    Raises:
        OSError: something cannot be removed.
    """
    prefix = f".{os.urandom(6).hex()}."
    waiting = [folder]
    num_moved = 0
    while waiting:
        current = waiting.pop()
        for entry in _entries(current, prefix):
            if entry.is_dir(follow_symlinks=False):
                # Moved to the top before it is entered: otherwise paths would grow with the tree.
                num_moved += 1
                os.chmod(entry.path, 0o700)
                moved = f"{folder}/{prefix}{num_moved}"
                os.rename(entry.path, moved)
                waiting.append(moved)
            else:
                os.unlink(entry.path)
        if current != folder:
            os.rmdir(current)


def _entries(folder: str, prefix: str) -> Iterator[os.DirEntry[str]]:
    """Yield a folder's entries while they are removed, at most `_AT_ONCE` in memory at a time."""
    while True:
        with os.scandir(folder) as entries:
            found = list(islice((e for e in entries if not e.name.startswith(prefix)), _AT_ONCE))
        yield from found
        if len(found) < _AT_ONCE:
            return


def make_work(path: str, owner: int | None) -> str:
    """Make the empty work folder of a slot without namespaces; return its path.

    `owner` is the user of the slot's programs, or None if they have this process's user. An owner's
    programs may not change the folder itself. An old folder stays until the end if it cannot be
    emptied: the slot gets another folder.
    """
    for attempt in range(_MAX_WORK_FOLDERS):
        candidate = f"{path}.{attempt}" if attempt else path
        with suppress(OSError):
            _reset(candidate, owner)
            return candidate
    raise OSError(f"{path}: no work folder can be made")


def _reset(path: str, owner: int | None) -> None:
    os.makedirs(path, exist_ok=True)
    os.chmod(path, 0o700)
    wipe(path)
    for name in os.listxattr(path):
        os.removexattr(path, name)
    if owner is not None:
        os.chown(path, -1, owner)
        # Programs may remove only their own files, and may not change the folder's mode.
        os.chmod(path, 0o1770)
