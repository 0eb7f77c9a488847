"""Several imported folders mixed into one, by shares of folders or domains, counts, or temperature.

The mixture is a folder as of an import: duplicates across its parts are left out, and a resumed
run reads the same rows.
"""

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.types import Role
from assay_trainer.curation.files import Found
from assay_trainer.curation.importing import import_set
from assay_trainer.curation.order import ImportOrder, NearOrder
from assay_trainer.curation.weights import Weighted, shares_of
from assay_trainer.data.governance.imported import refuse_kind, rows_to_open
from assay_trainer.data.governance.manifest import ImportManifest, MixedPart
from assay_trainer.data.importers.own_tasks import ALL, OWN_TASKS


@dataclass(frozen=True)
class MixOrder:
    """Folders to mix. `weights` are by folder or by domain; without any, by number of rows.

    Without `num_rows`, as many rows are taken as the weights allow without a row twice.
    """

    folders: tuple[Path, ...]
    output: Path
    weights: Mapping[str, float] = field(default_factory=dict)
    num_rows: int | None = None
    #: A folder's weight is its number of rows to the power of 1 / temperature.
    temperature: float = 1.0
    seed: int = 0
    near: NearOrder = field(default_factory=NearOrder)
    data_folder: Path | None = None


@dataclass(frozen=True)
class Part:
    """A folder of a mixture with its file of rows, and the number of its training rows."""

    folder: Path
    manifest: ImportManifest
    file: Path
    size: int


def mix(order: MixOrder, report: Callable[[int], None] = lambda num_rows: None) -> ImportManifest:
    """Write the mixture and return its manifest, with the number of rows of each part.

    Raises:
        InvalidInput: weights name no part, or ask for more rows than there are.
        DatasetError: a folder cannot be used.
    """
    parts = [_part(folder, order.data_folder) for folder in order.folders]
    numbers = allotted(parts, order)
    asked = _weights(parts, order)
    with TemporaryFolder("assay-mix-") as temporary:
        files: list[Path] = []
        ids = _Ids()
        for at, (part, number) in enumerate(zip(parts, numbers, strict=True)):
            files.append(temporary / f"{at}-{part.folder.name}.jsonl")
            _write_part(part, number, order.seed, files[-1], ids)
        name = ", ".join(part.folder.name for part in parts)
        importing = ImportOrder(
            OWN_TASKS, name, order.output, near=order.near, data_folder=order.data_folder
        )
        manifest = import_set(importing, report, Found(files, name, None, ALL))
    manifest = manifest.model_copy(
        update={
            "licence": "; ".join(dict.fromkeys(part.manifest.licence for part in parts)),
            "mixture": _counted(order.output / manifest.file),
            "parts": tuple(map(_mixed, parts, asked, numbers)),
        }
    )
    manifest.write(order.output)
    return manifest


def _mixed(part: Part, asked: float, number: int) -> MixedPart:
    name, domain = part.folder.name, part.manifest.domain
    return MixedPart(
        name=name, domain=domain, asked=asked, num_rows=number, num_available=part.size
    )


def allotted(parts: Sequence[Part], order: MixOrder) -> list[int]:
    """Return the number of rows of each part: whole numbers nearest to the weights.

    Raises:
        InvalidInput: see `mix`.
    """
    weights = _weights(parts, order)
    most = min(part.size / one for part, one in zip(parts, weights, strict=True) if one)
    num_rows = order.num_rows if order.num_rows is not None else int(most + 1e-9)
    exact = [one * num_rows for one in weights]
    numbers = [int(one + 1e-9) for one in exact]
    by_rest = sorted(range(len(parts)), key=lambda at: (numbers[at] - exact[at], at))
    for at in by_rest[: num_rows - sum(numbers)]:
        numbers[at] += 1
    for part, number in zip(parts, numbers, strict=True):
        if number > part.size:
            raise InvalidInput(
                f"{number} rows of {part.folder} are wanted, and it has {part.size} for training",
                field="--rows",
                hint=f"these weights allow {int(most)} rows in all",
            )
    return numbers


def _weights(parts: Sequence[Part], order: MixOrder) -> list[float]:
    """Return the parts' shares; they sum to 1."""
    sizes = [part.size ** (1 / order.temperature) for part in parts]
    if not order.weights:
        return [size / sum(sizes) for size in sizes]
    if order.temperature != 1.0:
        raise InvalidInput("a temperature goes without weights", field="--temperature")
    named = [
        Weighted(str(part.folder), part.folder.name, part.manifest.domain, part.size)
        for part in parts
    ]
    return shares_of(named, order.weights)


def _part(folder: Path, data_folder: Path | None) -> Part:
    manifest, file, _ = rows_to_open(folder, None, to_train=True, data_folder=data_folder)
    refuse_kind(manifest, folder, preferences=False)
    return Part(folder, manifest, file, manifest.roles[Role.TRAIN])


def _write_part(part: Part, number: int, seed: int, path: Path, ids: "_Ids") -> None:
    """Write `number` training rows by chance, and all rows of the held-out share."""
    rng = random.Random(f"{seed}/{part.manifest.digest}")
    chosen = set(rng.sample(range(part.size), number))
    at = 0
    with (
        part.file.open(encoding="utf-8", newline="\n") as old,
        path.open("w", encoding="utf-8") as new,
    ):
        for line in old:
            row = json.loads(line)
            role = row["role"]
            if role == Role.VALIDATION or (role == Role.TRAIN and at in chosen):
                name = ids.unique(row, part.folder.name)
                new.write(line if name == row["id"] else f"{json.dumps(row | {'id': name})}\n")
            at += role == Role.TRAIN


class _Ids:
    """The ids of a mixture. A row that is there twice keeps its id, so that it is a duplicate."""

    def __init__(self) -> None:
        self._rows: dict[str, bytes] = {}

    def unique(self, row: dict[str, object], folder: str) -> str:
        """Return the id of a row, with the folder's name before it if another row has it."""
        said = [row.get(name) for name in ("history", "prompt", "gold", "environment")]
        digest = blake2b(json.dumps(said).encode(), digest_size=8).digest()
        name = str(row["id"])
        for number in itertools.count():
            if self._rows.setdefault(name, digest) == digest:
                return name
            name = f"{folder}{number or ''}/{row['id']}"
        raise AssertionError


def _counted(path: Path) -> dict[str, int]:
    """Return the number of training rows of each dataset."""
    found: Counter[str] = Counter()
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            row = json.loads(line)
            found[row["dataset"]] += row["role"] == Role.TRAIN
    if not found.total():
        raise DatasetError("no row for training is left of the mixture")
    return dict(found)
