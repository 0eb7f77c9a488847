"""Prompts of registered test-only sets: no row with one of them is trained on."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from assay_shared.errors import DatasetError, RoleError
from assay_shared.types import Task
from assay_trainer.data.prompt_hashes import KeyTable, PromptHashes

#: The published sets that the package knows, a file each: see `assay data register`.
SHIPPED = Path(__file__).parent / "test_only_sets"
#: The folder of a user's own sets, in the folder of external datasets.
OWN_SETS = "test_only"


def known_prompts(data_folder: Path | None) -> PromptHashes:
    """Return the prompts of all registered sets.

    Raises:
        DatasetError: a file of hashes cannot be read, or the folder of own sets is not there.
    """
    if data_folder is not None and not data_folder.is_dir():
        raise DatasetError(
            f"there is no folder {data_folder}, so its registered test sets are not known",
            field="ASSAY_DATA",
            hint="make the folder, or unset ASSAY_DATA if you have no sets of your own",
        )
    folders = [SHIPPED, *([data_folder / OWN_SETS] if data_folder is not None else [])]
    files = [path for folder in folders for path in sorted(folder.glob("*.npz"))]
    return _read(tuple((path, path.stat().st_mtime_ns) for path in files))


@lru_cache(maxsize=2)
def _read(files: tuple[tuple[Path, int], ...]) -> PromptHashes:
    """Return the prompts of files, each with the time of its last change."""
    sets = [one for path, _ in files for one in KeyTable.read(path).items()]
    return PromptHashes([(name, list(table)) for name, table in sets])


def refuse_test_only(tasks: Iterable[tuple[Task, str | None]], data_folder: Path | None) -> None:
    """Check tasks for training, each with a worse answer if it has one.

    Raises:
        RoleError: the prompt of a registered test-only set stands in a task or in an answer.
    """
    known = known_prompts(data_folder)
    for task, rejected in tasks:
        name = known.find_in(task, rejected)
        if name is not None:
            raise RoleError(
                f"task {task.id} has a prompt of {name}, which is for tests only; it cannot be "
                "trained on",
                hint="`assay data import` leaves such rows out and says which",
            )
