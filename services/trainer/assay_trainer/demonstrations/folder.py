"""The folder of made demonstrations: that of an import, with the rows in plain forms too.

tasks.jsonl           the rows, for training and held out, as `assay data import` writes them
demonstrations.jsonl  those for training alone
rows.jsonl, .parquet  instruction, response, messages, and how each row was made
metrics.json          numbers for gates
manifest.json, refused.jsonl, prompts.npz  as of an import
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue

from assay_shared.runs.run_folder import write_atomically, write_json
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.types import Role, Task
from assay_trainer.curation.files import Found
from assay_trainer.curation.importing import import_set
from assay_trainer.curation.order import ImportOrder, NearOrder
from assay_trainer.data.governance.manifest import MANIFEST, ROWS, ImportManifest
from assay_trainer.data.importers.format import RowKind
from assay_trainer.data.importers.own_tasks import ALL, OWN_TASKS

DEMONSTRATIONS = "demonstrations.jsonl"
METRICS = "metrics.json"
PLAIN_ROWS, _PARQUET = "rows.jsonl", "rows.parquet"
_STAGED = ".made"
#: Rows that a row group of the Parquet file holds.
_GROUP_ROWS = 1024


@dataclass(frozen=True)
class MadeRow:
    """A demonstration, whose answer is the task's `gold`, and how it was made."""

    task: Task
    record: Mapping[str, JsonValue]


@dataclass(frozen=True)
class MadeFolder:
    """Where rows go, and what is done with them."""

    output: Path
    #: The command's name, and the source of the answers.
    format: str
    source: str
    #: Facts for the manifest.
    made: Mapping[str, JsonValue]
    validation_share: float = 0.0
    seed: int = 0
    near: NearOrder = field(default_factory=lambda: NearOrder(is_wanted=False))
    data_folder: Path | None = None


def write_demonstrations(
    rows: Sequence[MadeRow],
    folder: MadeFolder,
    numbers: Callable[[ImportManifest, Sequence[str]], Mapping[str, JsonValue]],
) -> ImportManifest:
    """Write the folder and return its manifest.

    `numbers` makes the metrics of the manifest and of the ids of the rows that are left.

    Rows are screened as those of an import. The manifest comes last: with it the folder is whole.

    Raises:
        DatasetError: no row is left.
        Conflict: another process writes the folder.
    """
    folder.output.mkdir(parents=True, exist_ok=True)
    staged = folder.output / _STAGED
    shutil.rmtree(staged, ignore_errors=True)
    manifest = _import(rows, folder, staged)
    manifest = manifest.model_copy(update={"made": dict(folder.made)})
    kept = _write_plain(rows, staged)
    write_json(staged / METRICS, {"overall": {"num_rows": len(kept), **numbers(manifest, kept)}})
    manifest.write(staged)
    for one in sorted(staged.iterdir(), key=lambda file: file.name == MANIFEST):
        one.replace(folder.output / one.name)
    staged.rmdir()
    return manifest


def _import(rows: Sequence[MadeRow], folder: MadeFolder, staged: Path) -> ImportManifest:
    made = replace(
        OWN_TASKS,
        name=folder.format,
        domain="the instructions' own",
        licence="that of the model's answers",
        kind=RowKind.DEMONSTRATIONS,
    )
    with TemporaryFolder("assay-made-") as temporary:
        file = temporary / "made.jsonl"
        with file.open("w", encoding="utf-8") as lines:
            for row in rows:
                lines.write(f"{row.task.model_dump_json()}\n")
        order = ImportOrder(
            made,
            folder.source,
            staged,
            validation_share=folder.validation_share,
            max_refused_share=1.0,
            seed=folder.seed,
            near=folder.near,
            data_folder=folder.data_folder,
        )
        return import_set(order, found=Found([file], folder.source, None, ALL))


def _write_plain(rows: Sequence[MadeRow], staged: Path) -> list[str]:
    """Write the rows that are left in plain forms; return their ids."""
    records = {row.task.id: row.record for row in rows}
    plain: list[dict[str, JsonValue]] = []
    training: list[str] = []
    with (staged / ROWS).open(encoding="utf-8", newline="\n") as file:
        for line in file:
            task = Task.model_validate_json(line)
            if task.role is Role.TRAIN:
                training.append(line)
            plain.append(_plain(task, records[task.id]))
    write_atomically(staged / DEMONSTRATIONS, "".join(training))
    lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in plain)
    write_atomically(staged / PLAIN_ROWS, "".join(lines))
    _write_parquet(plain, staged / _PARQUET)
    return [str(one["id"]) for one in plain]


def _plain(task: Task, record: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    said: list[JsonValue] = [dict(one.model_dump()) for one in task.messages]
    return {
        "id": task.id,
        "role": str(task.role),
        "instruction": task.prompt,
        "response": task.gold,
        "messages": [*said, {"role": "assistant", "content": task.gold}],
        "record": dict(record),
    }


def _write_parquet(rows: Sequence[Mapping[str, JsonValue]], path: Path) -> None:
    """Write rows as Parquet; a row's record is JSON text there, since records differ in form."""
    import pyarrow
    import pyarrow.parquet

    message = pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.string())])
    texts = [(name, pyarrow.string()) for name in ("id", "role", "instruction", "response")]
    schema = pyarrow.schema(
        [*texts, ("messages", pyarrow.list_(message)), ("record", pyarrow.string())]
    )
    table = pyarrow.Table.from_pylist(
        [{**row, "record": json.dumps(row["record"], ensure_ascii=False)} for row in rows], schema
    )
    pyarrow.parquet.write_table(table, path, row_group_size=_GROUP_ROWS)
