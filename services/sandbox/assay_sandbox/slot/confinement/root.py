"""The root folder of slots: a few of the host's folders, read-only, and three of their own."""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from assay_sandbox.slot.confinement import kernel

#: Where a program starts; its home.
WORK = "/w"
#: What a program may write to.
WRITABLE = (WORK, "/tmp", "/dev/shm")
#: Where programs find their interpreter: a virtual environment.
PYTHON = "/python"
#: Below it is shown what the host has in a folder that slots have one of their own for.
_MOVED = "/shown"
#: Shown where the host has them: what interpreters and compilers are made of.
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
#: Entries of a folder that are held while it is emptied.
_AT_ONCE = 4096
_MAX_WORK_FOLDERS = 64
#: A mount keeps these when it is made read-only; they may be locked.
_KEPT_FLAGS = {8: kernel.MS_NOEXEC, 1024: 0x400, 2048: 0x800, 4096: 0x200000}


def place_of(path: str) -> str:
    """Return where slots have a path of the host's that is shown to them.

    It is the same path, unless a folder that programs write to would lie over it.
    """
    return _MOVED + path if path.startswith(tuple(f"{one}/" for one in WRITABLE)) else path


def build(root: str, extra: list[str], python_home: str) -> None:
    """Put the tree together at `root`, in this process's own mount namespace."""
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
        if not os.path.lexists(f"{root}/{name}"):  # something of the host's may be shown below it
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
    """Make the tree this process's root, with folders of its own in it."""
    kernel.mount(root, root, flags=kernel.MS_BIND | kernel.MS_REC)
    # Before the old root goes: who sees no /proc may not mount one.
    mount_own(writable_bytes, root)
    kernel.change_root(root)


def mount_own(writable_bytes: int, root: str = "") -> None:
    """Empty writable folders, and the processes of this namespace in /proc."""
    options = f"size={writable_bytes},nr_inodes=8k,mode=1777"
    for folder in WRITABLE:
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        kernel.mount("tmpfs", root + folder, "tmpfs", flags, options)
    # Read-only: what a program could write there is who is ended first for memory.
    flags = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("proc", f"{root}/proc", "proc", flags)


def wipe(folder: str) -> None:
    """Remove all that is in a folder, following nothing out of it, however deep it goes.

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
                # Moved to the top, and only then entered: no path grows with the tree.
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
    """Go through what is in a folder while it is removed; a part at a time, however much it is."""
    while True:
        with os.scandir(folder) as entries:
            found = list(islice((e for e in entries if not e.name.startswith(prefix)), _AT_ONCE))
        yield from found
        if len(found) < _AT_ONCE:
            return


def make_work(path: str, owner: int | None) -> str:
    """Make the work folder of a slot without namespaces, empty; its path.

    `owner` is the user of its programs, who may not change the folder itself; None where they have
    this process's user. One that is there and cannot be emptied is left for the end: the slot gets
    another.
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
        # Its own files only may be removed by their user, and its mode by nobody.
        os.chmod(path, 0o1770)
