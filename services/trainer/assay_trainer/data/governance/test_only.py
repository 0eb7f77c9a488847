"""Prompts of registered test-only sets: no row with one of them is trained on."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from assay_shared.errors import RoleError
from assay_shared.types import Task
from assay_trainer.data.prompt_hashes import PromptHashes, read_hashes, text_of

#: The published sets that the package knows, a file each: see `assay data register`.
SHIPPED = Path(__file__).parent / "test_only_sets"
#: The folder of a user's own sets, in the folder of external datasets.
OWN_SETS = "test_only"


def known_prompts(data_folder: Path | None) -> PromptHashes:
    """Return the prompts of all registered sets.

    Raises:
        DatasetError: a file of hashes cannot be read.
    """
    folders = [SHIPPED, *([data_folder / OWN_SETS] if data_folder is not None else [])]
    files = [path for folder in folders for path in sorted(folder.glob("*.npz"))]
    return _read(tuple((path, path.stat().st_mtime_ns) for path in files))


@lru_cache(maxsize=2)
def _read(files: tuple[tuple[Path, int], ...]) -> PromptHashes:
    """Return the prompts of files, each with the time of its last change."""
    return PromptHashes([one for path, _ in files for one in read_hashes(path)])


def refuse_test_only(tasks: Iterable[Task], data_folder: Path | None) -> None:
    """Check tasks for training.

    Raises:
        RoleError: the prompt of a registered test-only set is a task's prompt, or stands in it.
    """
    known = known_prompts(data_folder)
    for task in tasks:
        name = known.find(text_of(task))
        if name is not None:
            raise RoleError(
                f"task {task.id} has a prompt of {name}, which is for tests only; it cannot be "
                "trained on",
                hint="`assay data import` leaves such rows out and says which",
            )
