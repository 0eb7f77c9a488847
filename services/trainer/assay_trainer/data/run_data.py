"""The task sets of a run, and their tasks set aside."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from assay_trainer.config import Source
from assay_trainer.data.dataset import Dataset, DatasetPurpose, open_dataset
from assay_trainer.events import TaskSetAside
from assay_trainer.rollouts.set_aside import SetAside, unreadable


@dataclass(frozen=True)
class RunSet:
    """A dataset of a run. `dataset` has the tasks that can be sent to other processes."""

    dataset: Dataset
    set_aside: SetAside

    @property
    def usable(self) -> Dataset:
        """Return the tasks not set aside so far."""
        tasks = [task for task in self.dataset.tasks if task not in self.set_aside]
        return Dataset(tasks, self.dataset.mistakes)

    def digest(self) -> str:
        """Return the SHA-256 of the tasks in their order. A field at its default does not count."""
        return digest_of(task.model_dump_json(exclude_defaults=True) for task in self.dataset.tasks)


def digest_of(texts: Iterable[str]) -> str:
    """Return the SHA-256 of texts with their lengths."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode()
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()


def open_set(
    name: str,
    source: Source,
    purpose: DatasetPurpose,
    folder: Path | None,
    max_share: float,
    report: Callable[[TaskSetAside], None],
) -> RunSet:
    """Open a dataset and set aside the tasks that nobody could read.

    Raises:
        DatasetError: a row that cannot be used, or too many tasks to set aside.
        RoleError: a task that is not for training, opened for it.
    """
    dataset = open_dataset(source, purpose, folder, takes_half_characters=True)
    set_aside = SetAside(name, len(dataset.tasks), max_share, report)
    bad_rows = dataset.unusable
    set_aside.add_all([(t, bad_rows[t.id]) for t in dataset.tasks if t.id in bad_rows])
    set_aside.add_all(unreadable(dataset.tasks))
    return RunSet(RunSet(dataset, set_aside).usable, set_aside)
