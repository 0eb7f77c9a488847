"""Temporary folders of processes; what a killed process left goes when the next one starts."""

import fcntl
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_log = logging.getLogger(__name__)

_UNLOCKED_PREFIX = "assay-unlocked-"
_LOCK = "lock"

#: Removes a folder with all that is in it. Raises OSError.
Wipe = Callable[[Path], None]


class TemporaryFolder:
    """A folder of this process alone, until `remove` or the end of a `with` block.

    Its lock ends with this process in every case. Whoever makes the next folder with the same
    prefix removes the folders whose lock has ended.
    """

    def __init__(
        self,
        prefix: str,
        parent: Path | None = None,
        *,
        wipe: Wipe | None = None,
        mode: int = 0o700,
    ) -> None:
        """Create it in `parent`, or in the system's temporary folder.

        Raises:
            OSError: it cannot be created there.
        """
        parent = parent or Path(tempfile.gettempdir())
        self._wipe = wipe or _remove_all
        _remove_left(parent, prefix, self._wipe)
        unlocked = Path(tempfile.mkdtemp(prefix=_UNLOCKED_PREFIX, dir=parent))
        # No file object: its end would be the lock's, while the folder's path is still in use.
        self._lock: int | None = os.open(unlocked / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.chmod(mode)
        # Renamed only once locked: otherwise another process could take it for a dead one's.
        self.path = unlocked.with_name(prefix + unlocked.name.removeprefix(_UNLOCKED_PREFIX))
        unlocked.rename(self.path)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder as far as possible; do nothing the second time."""
        if self._lock is None:
            return
        _remove(self.path, self._wipe)
        os.close(self._lock)
        self._lock = None


def _remove_left(parent: Path, prefix: str, wipe: Wipe) -> None:
    """Remove the folders that dead processes of this user left."""
    for folder in parent.glob(f"{prefix}*"):
        with suppress(FileNotFoundError):  # its process has just ended, or another removes it
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                _remove_if_dead(folder, wipe)


def _remove_if_dead(folder: Path, wipe: Wipe) -> None:
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _log.warning("removing %s, whose process was killed", folder)
        _remove(folder, wipe)
    except BlockingIOError:
        return  # its process lives
    finally:
        os.close(lock)


def _remove_all(folder: Path) -> None:
    """Remove what can be removed. Raises OSError if something stays."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        folder.rmdir()


def _remove(folder: Path, wipe: Wipe) -> None:
    try:
        wipe(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        _log.warning("%s cannot be removed: %s", folder, error)
