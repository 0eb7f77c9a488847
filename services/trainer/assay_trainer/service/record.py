"""A run's folder at its birth, and its configuration read back."""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from assay_shared.errors import Conflict
from assay_shared.runs.run_folder import RunFolder, write_json
from assay_shared.settings.run_file import parse_config, provenance
from assay_trainer.config import RunConfig

#: A folder's name has 100 characters at most, with the time.
_MOST_OF_A_NAME = 80


def create_run(path: Path, config: RunConfig, started_by: str = "") -> RunFolder:
    """Make a folder with the resolved configuration, git commit and package versions.

    `started_by` is the name of the client that starts the run, if it has one.

    Raises:
        Conflict: the folder exists.
    """
    folder = RunFolder.create(path)
    content = {"config": config.model_dump(mode="json")} | provenance()
    if started_by:
        content["started_by"] = started_by
    write_json(folder.config, content)
    return folder


def create_stamped_run(runs: Path, config: RunConfig) -> RunFolder:
    """Return a new folder below `runs`, named by the run and the second: see `create_run`."""
    for name in stamped_names(config.name):
        try:
            return create_run(runs / name, config)
        except Conflict:
            continue
    raise AssertionError("names do not end")


@contextmanager
def plan_folder(runs: Path, config: RunConfig) -> Iterator[RunFolder]:
    """Yield a run's folder below `runs`, where inference can read; it exists only in the block."""
    runs.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".plan-", dir=runs) as found:
        home = Path(found)
        home.chmod(0o755)
        yield create_run(home / home.name.removeprefix("."), config)


def open_run(path: Path) -> tuple[RunFolder, RunConfig]:
    """Return an existing run.

    Raises:
        NotFound: there is no such run.
        ConfigError: its configuration is of another version of Assay, or damaged.
    """
    folder = RunFolder.open(path)
    values = folder.read_config()["config"]
    return folder, parse_config(RunConfig, values, source=str(folder.config))


def stamped_names(name: str) -> Iterator[str]:
    """Yield folder names of this second, for runs that begin in it: name-TIME, name-TIME-2, ..."""
    stamp = f"{name[:_MOST_OF_A_NAME]}-{time.strftime('%Y%m%d-%H%M%S')}"
    yield stamp
    yield from (f"{stamp}-{number}" for number in itertools.count(2))


def create_stamped(parent: Path, name: str) -> Path:
    """Return a new folder of this second below `parent`."""
    parent.mkdir(parents=True, exist_ok=True)
    for one in stamped_names(name):
        with suppress(FileExistsError):
            (parent / one).mkdir()
            return parent / one
    raise AssertionError("names do not end")
