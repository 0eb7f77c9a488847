"""A program's files: put in place before it runs, picked up once it has ended.

Both steps have the program's own rights: they do nothing the program could not do itself.
"""

import errno
import fnmatch
import glob
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

#: Prefix of a pattern for files in all folders.
_ANYWHERE = "**/"
_MAX_DEPTH = 64


def put(files: dict[str, tuple[bytes, int]]) -> None:
    """Write files below the current folder: content and mode by name.

    Raises:
        OSError: the files do not fit.
    """
    for name, (content, mode) in files.items():
        folder = os.path.dirname(name)
        if folder:
            os.makedirs(folder, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        # Without O_NONBLOCK, opening a fifo would wait for its reader.
        with open(os.open(name, flags | os.O_NONBLOCK, mode), "wb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", name)
            file.write(content)


def pick_up(patterns: list[str], max_bytes: int) -> dict[str, bytes | str]:
    """Return matching files below the current folder: by name, the content or an error text.

    No link is followed, only regular files are opened, and `max_bytes` bounds the sum.
    """
    found: dict[str, bytes | str] = {}
    left = max_bytes
    for name in _matches(patterns):
        if _is_behind_link(name):
            found[name] = "it is a link, or behind one"
            continue
        content = _read(name, left)
        found[name] = content
        left -= len(content)
    return found


def _is_behind_link(name: str) -> bool:
    try:
        return os.path.realpath(name) != os.path.join(os.getcwd(), name)
    except RecursionError:  # a chain of a thousand links
        return True


def _matches(patterns: list[str]) -> list[str]:
    names: set[str] = set()
    for pattern in patterns:
        if pattern.startswith(_ANYWHERE):
            names.update(_below("", pattern.removeprefix(_ANYWHERE)))
        else:
            names.update(map(os.path.normpath, glob.iglob(pattern)))
    return sorted(name for name in names if os.path.lexists(name))


def _below(top: str, pattern: str) -> Iterator[str]:
    """Yield the files matching `pattern` in a folder, and in folders below it down to `_MAX_DEPTH`.

    Without this bound a program could nest folders until a search takes minutes.
    """
    waiting = [(top, 0)]
    while waiting:
        folder, depth = waiting.pop()
        with suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                path = os.path.join(folder, entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    if fnmatch.fnmatchcase(entry.name, pattern):
                        yield path
                elif depth < _MAX_DEPTH:
                    waiting.append((path, depth + 1))


def _read(name: str, max_bytes: int) -> bytes | str:
    try:
        # Opening a fifo would wait for a writer, and a device may be anything.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return os.strerror(error.errno or 0)
    facts = os.fstat(fd)
    if not stat.S_ISREG(facts.st_mode):
        os.close(fd)
        return "it is not a regular file"
    with open(fd, "rb") as file:
        if facts.st_size > max_bytes:
            return "all files together are over the limit"
        return file.read(max_bytes)
