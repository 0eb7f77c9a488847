"""A run's folder at its birth, and its configuration read back."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from assay_shared.errors import Conflict
from assay_shared.runs.run_folder import RunFolder, write_json
from assay_shared.runs.run_lock import owner_of
from assay_shared.settings.run_file import parse_config, provenance
from assay_trainer.config import RunConfig


def create_run(path: Path, config: RunConfig) -> RunFolder:
    """Make a folder with the resolved configuration, git commit and package versions.

    Raises:
        Conflict: the folder exists.
    """
    folder = RunFolder.create(path)
    write_json(folder.config, {"config": config.model_dump(mode="json")} | provenance())
    return folder


@contextmanager
def plan_folder(runs: Path, config: RunConfig) -> Iterator[RunFolder]:
    """Yield a run's folder that exists only in the block, below `runs`, where inference can read.

    Raises:
        Conflict: a process trains a run of `runs`; the plan would replace its policy.
    """
    runs.mkdir(parents=True, exist_ok=True)
    for folder in sorted(runs.iterdir()):
        owner = owner_of(folder) if folder.is_dir() else None
        if owner is not None:
            raise Conflict(f"run {folder.name} belongs to {owner}", hint="plan when it has ended")
    with TemporaryDirectory(prefix=".plan-", dir=runs) as found:
        home = Path(found)
        home.chmod(0o755)
        yield create_run(home / home.name.removeprefix("."), config)


def open_run(path: Path) -> tuple[RunFolder, RunConfig]:
    """Return an existing run.

    Raises:
        NotFound: there is no such run.
        ConfigError: its configuration is of another version of Assay.
    """
    folder = RunFolder.open(path)
    values = json.loads(folder.config.read_text())["config"]
    return folder, parse_config(RunConfig, values, source=str(folder.config))


def stamped(name: str) -> str:
    """Return a folder name unique among the runs of this second."""
    return f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
