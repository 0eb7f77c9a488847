"""The folder in which a server builds its slots."""

from pathlib import Path

from assay_sandbox.slot.confinement import root
from assay_shared.errors import ConfigError
from assay_shared.runtime.temporary_folder import TemporaryFolder


def make_work_folder(parent: Path | None) -> TemporaryFolder:
    """Return a new folder of this server, in `parent` or the system's temporary folder.

    Raises:
        ConfigError: it cannot be created there.
    """
    try:
        return TemporaryFolder("assay-slots-", parent, wipe=_wipe, mode=0o755)
    except OSError as error:
        raise ConfigError(str(error), field="ASSAY_SANDBOX_WORK_FOLDER") from None


def _wipe(folder: Path) -> None:
    """Remove a folder that programs have filled: at any depth, without following links."""
    root.wipe(str(folder))
    folder.rmdir()
