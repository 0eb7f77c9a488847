"""A benchmark on disk: a folder per cell, and a manifest of their content."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from assay_reward.or_debug.dataset import tasks
from assay_reward.or_debug.models import mps
from assay_reward.or_debug.models.instance import Instance, save
from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.types import Task, Wire

MANIFEST, DATASET, TASKS, MODELS = "manifest.json", "dataset.json", "tasks.jsonl", "models"
HINT = "assay or-debug generate makes a benchmark, assay or-debug import one of a published set"


class BenchmarkCell(Wire):
    """A cell's files. `digests` are SHA-256 by file; all models together have a single digest."""

    name: str
    num_instances: int
    digests: dict[str, str]


class _CellOfManifest(BenchmarkCell):
    """The fields of a cell in every manifest; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class _Manifest(BaseModel):
    cells: tuple[_CellOfManifest, ...]


def must_be_new(output: Path) -> None:
    """Raise InvalidInput for a file, or a folder with content."""
    if output.is_file() or (output.exists() and any(output.iterdir())):
        raise InvalidInput("the folder is not empty", field="output", hint="choose a new one")


def must_be_no_file(output: Path) -> None:
    """Raise InvalidInput for a file or folder that exists."""
    if output.exists():
        raise InvalidInput(f"{output} exists", field="output", hint="choose a new file")


def write_cell(
    folder: Path, instances: Sequence[Instance], played: Iterable[Task]
) -> dict[str, str]:
    """Write instances, their models and their tasks, and return the files' digests."""
    (folder / MODELS).mkdir(parents=True)
    for instance in instances:
        mps.write(instance.model, folder / MODELS / f"{instance.id}.mps")
    save(instances, folder / DATASET)
    tasks.save(played, folder / TASKS)
    return digests_of(folder)


def write_manifest(folder: Path, manifest: Wire) -> None:
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=1) + "\n")


def digests_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of a cell's files on disk."""
    models = hashlib.sha256()
    for path in sorted((folder / MODELS).glob("*.mps")):
        models.update(path.name.encode() + b"\0" + path.read_bytes())
    files = {name: hashlib.sha256((folder / name).read_bytes()) for name in (DATASET, TASKS)}
    return {name: digest.hexdigest() for name, digest in (files | {MODELS: models}).items()}


def digest_of(cells: Iterable[BenchmarkCell]) -> str:
    """Return the SHA-256 of all digests of all cells."""
    content = json.dumps([cell.digests for cell in cells], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def read_cells(folder: Path) -> tuple[BenchmarkCell, ...]:
    """Return the cells in a folder's manifest.

    Raises: DatasetError for a folder without a benchmark, or with an incomplete benchmark.
    """
    must_be_benchmark(folder)
    folder = folder.parent if folder.is_file() else folder
    path = folder / MANIFEST
    if not path.is_file():
        is_part = (folder.parent / MANIFEST).is_file()
        hint = f"{folder.parent} has one: check it whole" if is_part else HINT
        raise DatasetError(f"no {MANIFEST}", field=str(folder), hint=hint)
    try:
        return _Manifest.model_validate_json(path.read_bytes()).cells
    except ValidationError as error:
        told = error.errors()[0]["msg"]
        raise DatasetError(f"not a manifest: {told}", field=str(path)) from None


def must_be_benchmark(given: Path) -> None:
    """Raise DatasetError for a missing path, or for a published set not yet imported."""
    if not given.exists():
        raise DatasetError("no such file or folder", field=str(given), hint=HINT)
    folder = given.parent if given.name == DATASET else given
    if (folder / DATASET).is_file() and not (folder / TASKS).is_file():
        hint = f"assay or-debug import {folder} --output NEW_FOLDER, and give that"
        raise DatasetError("a published set, not a benchmark", field=str(given), hint=hint)
    if given.is_file() and given.suffix == ".gz":
        raise DatasetError("packed with gzip", field=str(given), hint="gunzip it")
    if given.is_file() and given.suffix != ".jsonl":
        hint = f"give the benchmark's folder, or a {TASKS} in it"
        raise DatasetError("neither a folder nor a tasks file", field=str(given), hint=hint)
