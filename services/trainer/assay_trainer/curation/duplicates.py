"""Near duplicates in the rows for training: found by the leak check's detector and its controls.

Rows are compared with the rows of other sets, and with earlier rows of the same set. Of the same
set, a block of rows is in memory at a time.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay_shared.types import Role, Task
from assay_trainer.checks.leaks.controls import check_controls
from assay_trainer.checks.leaks.detector import Detector
from assay_trainer.checks.leaks.documents import Document, Reader
from assay_trainer.checks.leaks.findings import LEAKED, LeakPart, Method
from assay_trainer.config import JsonlSource, LeaksConfig
from assay_trainer.curation.order import NearOrder
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.data.governance.manifest import NearDuplicates, checked_rows
from assay_trainer.data.importers.format import RowKind
from assay_trainer.table_source import ImportedSource

#: Without a similarity in the order, more rows are not compared: it takes minutes.
MAX_ROWS = 10_000
_JACCARD = 0.7
_BLOCK = 5_000
#: Words in at most this number of rows are not boilerplate: near copies share them.
_MAX_COPIES = 10


@dataclass(frozen=True)
class NearFound:
    """Rows to remove by their number from 0, with the reason, and facts for the manifest."""

    removed: dict[int, str] = field(default_factory=dict)
    facts: NearDuplicates | None = None
    not_searched: str | None = None


def find_near_duplicates(
    path: Path, order: NearOrder, num_rows: int, seed: int, data_folder: Path | None
) -> NearFound:
    """Return the near duplicates among the training rows of a folder's file.

    Raises:
        InternalFault: a planted near duplicate was not found.
    """
    if not order.is_wanted:
        return NearFound(not_searched="it was not wanted")
    if not num_rows:
        return NearFound(not_searched="no row is for training")
    if num_rows > MAX_ROWS and order.jaccard is None and not order.against:
        return NearFound(
            not_searched=f"{num_rows} rows are more than {MAX_ROWS}: name a similarity"
        )
    jaccard = order.jaccard or _JACCARD
    search = _Search(path, LeaksConfig(jaccard=jaccard), seed)
    for other in order.against:
        search.against(other, data_folder)
    if num_rows <= MAX_ROWS or order.jaccard is not None:
        search.against_validation()
        search.within()
    facts = NearDuplicates(
        jaccard=jaccard,
        against=tuple(one.name for one in order.against),
        num_compared=num_rows,
        num_removed=len(search.removed),
        num_controls=search.num_controls,
    )
    return NearFound(search.removed, facts)


class _Search:
    """Reads a file's training rows several times, and gathers the rows to remove."""

    def __init__(self, path: Path, config: LeaksConfig, seed: int) -> None:
        self._path, self._config, self._seed = path, config, seed
        self.removed: dict[int, str] = {}
        self.num_controls = 0

    def against(self, other: Path, data_folder: Path | None) -> None:
        """Find rows that are near to a row of another set, in any way of the leak check."""
        self._among(opened_set(other, data_folder), other.name)

    def against_validation(self) -> None:
        """Find rows that are near to a row of the held-out share."""
        held_out = [task for _, task in _rows_of(self._path, Role.VALIDATION)]
        if held_out:
            self._among(held_out, "the validation rows")

    def _among(self, tasks: Sequence[Task], name: str) -> None:
        held_out = [task.model_copy(update={"gold": None}) for task in tasks]
        reader, detector = self._detector(held_out)
        for number, _, document in self._documents(reader):
            for match in detector.matches(document):
                if match.part is LeakPart.PROMPT and match.method in LEAKED:
                    told = f"{match.method} of {match.held_out_id} in {name}"
                    self.removed.setdefault(number, told)

    def within(self) -> None:
        """Find rows that are near to an earlier row."""
        block: dict[int, Task] = {}
        last = -1
        while block or last < 0:
            block = self._next_block(last)
            if not block:
                return
            last = max(block)
            self._within_block(block)

    def _next_block(self, last: int) -> dict[int, Task]:
        found: dict[int, Task] = {}
        for number, task in _training(self._path):
            if number > last and number not in self.removed:
                found[number] = task
            if len(found) == _BLOCK:
                break
        return found

    def _within_block(self, block: dict[int, Task]) -> None:
        tasks = [task.model_copy(update={"id": str(at)}) for at, task in block.items()]
        reader, detector = self._detector(tasks)
        first = min(block)
        for number, task, document in self._documents(reader, first):
            if number in self.removed:
                continue
            for match in detector.matches(document):
                earlier = int(match.held_out_id)
                is_near = match.part is LeakPart.PROMPT and match.method is Method.NEAR
                is_kept = earlier < number and earlier not in self.removed
                if not is_near or not is_kept:
                    continue
                other = block[earlier]
                # Another right answer makes it a sibling by a template. The same prompt has
                # another answer, since rows with the same one have left already.
                is_same = reader.document(other).words == document.words
                if other.reference == task.reference and not is_same:
                    told = f"near row {earlier + 1} of the folder ({match.value:.2f})"
                    self.removed[number] = told
                    break

    def _detector(self, held_out: Sequence[Task]) -> tuple[Reader, Detector]:
        """Return a detector that knows this file's boilerplate and finds what is planted."""
        reader = Reader(held_out, (task for _, task in _training(self._path)))
        detector = Detector([reader.document(task) for task in held_out], self._config, _MAX_COPIES)
        first = None
        for _, task in _training(self._path):
            first = first or task
            detector.learn(reader.document(task))
        detector.settle()
        assert first is not None
        controls = check_controls(detector, reader, held_out, first, self._seed)
        self.num_controls += sum(one.num_planted for one in controls)
        return reader, detector

    def _documents(self, reader: Reader, first: int = 0) -> Iterator[tuple[int, Task, Document]]:
        for number, task in _training(self._path):
            if number >= first:
                yield number, task, reader.document(task)


def _training(path: Path) -> Iterator[tuple[int, Task]]:
    return _rows_of(path, Role.TRAIN)


def _rows_of(path: Path, role: Role) -> Iterator[tuple[int, Task]]:
    """Yield the rows of a role by their number from 0, without their gold answers.

    `reference` has all that tells a right answer of a task.
    """
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file):
            row = json.loads(line)
            if row["role"] == role:
                yield number, _prompt_alone(row)


def _prompt_alone(row: dict[str, object]) -> Task:
    if isinstance(row["prompt"], list):
        text = "\n".join(str(message["content"]) for message in row["prompt"])
        return Task(id=str(row["id"]), prompt=text)
    names = ("id", "history", "prompt", "environment")
    right = json.dumps([row["reference"], row["checks"]])
    return Task.model_validate({name: row[name] for name in names} | {"reference": right})


def opened_set(path: Path, data_folder: Path | None) -> Sequence[Task]:
    """Return the tasks of an imported folder, its roles all together, or of a JSONL file."""
    if path.is_dir():
        manifest, rows = checked_rows(path)
        if manifest.kind is RowKind.PREFERENCES:
            return [task for role in Role for _, task in _rows_of(rows, role)]
        roles = [role for role in Role if role in manifest.roles]
        found: list[Task] = []
        for role in roles:
            source = ImportedSource(kind="imported", path=path, role=role)
            found += open_dataset(source, DatasetPurpose.EVALUATE, data_folder).tasks
        return found
    source_file = JsonlSource(kind="jsonl", path=path)
    return open_dataset(source_file, DatasetPurpose.EVALUATE, data_folder).tasks
