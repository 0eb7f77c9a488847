"""A run's folder at its birth, and its configuration read back."""

import json
import time
from pathlib import Path

from assay_shared.runs.run_folder import RunFolder, write_json
from assay_shared.settings.run_file import parse_config, provenance
from assay_trainer.config import RunConfig


def create_run(path: Path, config: RunConfig) -> RunFolder:
    """A new folder with the resolved configuration, the git commit and all package versions.

    Raises:
        Conflict: the folder exists.
    """
    folder = RunFolder.create(path)
    write_json(folder.config, {"config": config.model_dump(mode="json")} | provenance())
    return folder


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
