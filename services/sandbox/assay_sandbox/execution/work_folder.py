"""The folder in which a server's slots are put together; what a killed server left is removed."""

import fcntl
import logging
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from assay_sandbox.slot.confinement import root
from assay_shared.errors import ConfigError

_log = logging.getLogger(__name__)

_PREFIX, _UNLOCKED_PREFIX = "assay-slots-", "assay-unlocked-"
_LOCK = "lock"


class WorkFolder:
    """A folder of one's own. Its lock goes with this process, however it ends."""

    def __init__(self, parent: Path | None) -> None:
        """Make it in `parent`, or in the system's temporary folder, and remove those of the dead.

        Raises:
            ConfigError: it cannot be made there.
        """
        parent = parent or Path(tempfile.gettempdir())
        _remove_left(parent)
        try:
            unlocked = Path(tempfile.mkdtemp(prefix=_UNLOCKED_PREFIX, dir=parent))
            self._lock = (unlocked / _LOCK).open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            unlocked.chmod(0o755)
            # Under this name only with its lock: another server must not take it for a dead one's.
            self.path = unlocked.with_name(_PREFIX + unlocked.name.removeprefix(_UNLOCKED_PREFIX))
            unlocked.rename(self.path)
        except OSError as error:
            raise ConfigError(str(error), field="ASSAY_SANDBOX_WORK_FOLDER") from None

    def remove(self) -> None:
        """Remove it, as far as that can be done; nothing happens the second time."""
        _remove(self.path)
        self._lock.close()


def _remove_left(parent: Path) -> None:
    """Remove the folders of servers of this user that are dead."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(FileNotFoundError):  # its server has just ended, or another removes it
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _log.warning("removing %s, whose server was killed", folder)
        _remove(folder)
    except BlockingIOError:
        return  # its server lives
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    try:
        root.wipe(str(folder))
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        _log.warning("%s cannot be removed: %s", folder, error)
