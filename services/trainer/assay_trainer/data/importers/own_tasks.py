"""Tasks in Assay's own form: of a program of yours, or of a benchmark of OR debugging.

A row:  {"id": "a/1", "dataset": "a", "role": "train", "prompt": "...", "rubric": "math", ...}
"""

from collections.abc import Iterator

from pydantic import ValidationError

from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row
from assay_trainer.data.prompt_hashes import text_of

_NEEDED = ("id", "dataset", "prompt", "rubric")
#: The split that takes every row with its role.
ALL = "all"


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    row.text("role")
    return _read_benchmark(row, place)


def _read_benchmark(row: Row, place: Place) -> Iterator[ImportedRow]:
    """Yield the task of a row; one without a role is for tests."""
    for name in _NEEDED:
        row.text(name)
    try:
        task = Task.model_validate(row.value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise DatasetError(first["msg"], field=".".join(map(str, first["loc"])) or None) from None
    if place.split != ALL:
        place.wants(task.role)
    yield ImportedRow(task, text_of(task))


_ROLES = {ALL: Role.TRAIN, "train": Role.TRAIN, "validation": Role.VALIDATION, "test": Role.TEST}

OWN_TASKS = PublishedFormat(
    name="tasks",
    domain="the tasks' own",
    licence="the data's own",
    roles=_ROLES,
    rubric="the tasks' own",
    verified=("tasks.jsonl",),
    unverified=(),
    read=_read,
)
OR_DEBUG = PublishedFormat(
    name="or_debug",
    domain="operations research",
    licence="MIT",
    roles=_ROLES,
    rubric="or_debug.faithful",
    verified=("folders of dataset.json and MPS files", "folders of `assay or-debug`"),
    unverified=(),
    read=_read_benchmark,
)
