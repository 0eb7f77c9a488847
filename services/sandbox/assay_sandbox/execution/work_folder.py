"""The folder in which a server builds its slots; folders of killed servers are removed."""

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
    """A folder of this server alone. Its lock ends with this process in every case."""

    def __init__(self, parent: Path | None) -> None:
        """Create it in `parent` or the system's temporary folder; remove folders of dead servers.

        Raises:
            ConfigError: it cannot be created there.
        """
        parent = parent or Path(tempfile.gettempdir())
        _remove_left(parent)
        try:
            unlocked = Path(tempfile.mkdtemp(prefix=_UNLOCKED_PREFIX, dir=parent))
            self._lock = (unlocked / _LOCK).open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            unlocked.chmod(0o755)
            # Renamed only once locked: otherwise another server could take it for a dead server's.
            self.path = unlocked.with_name(_PREFIX + unlocked.name.removeprefix(_UNLOCKED_PREFIX))
            unlocked.rename(self.path)
        except OSError as error:
            raise ConfigError(str(error), field="ASSAY_SANDBOX_WORK_FOLDER") from None

    def remove(self) -> None:
        """Remove the folder as far as possible; do nothing the second time."""
        _remove(self.path)
        self._lock.close()


def _remove_left(parent: Path) -> None:
    """Remove the folders of this user's dead servers."""
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
