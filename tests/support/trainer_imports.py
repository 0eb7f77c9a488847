"""Imports of tests: orders, rows read by a format, and real files."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from assay_shared.errors import DatasetError
from assay_trainer.curation.importing import import_set
from assay_trainer.curation.order import ImportOrder
from assay_trainer.data.governance.manifest import ImportManifest
from assay_trainer.data.importers import find_format
from assay_trainer.data.importers.format import ImportedRow, OtherSplit, Place, Row
from assay_trainer.data.rows import read_raw_rows


def write_rows(path: Path, rows: Iterable[object]) -> Path:
    """Write rows as JSON Lines and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def examples_of(name: str, value: object, split: str, stem: str = "set") -> list[ImportedRow]:
    """Return a row's examples by a format."""
    wanted = find_format(name)
    return list(wanted.read(Row(value), Place(split, wanted.role_of(split), 0, stem)))


def read_all(name: str, path: Path, split: str) -> tuple[list[ImportedRow], Counter[str | None]]:
    """Return the examples of a file, and the refused rows by field; other splits do not count."""
    wanted = find_format(name)
    found: list[ImportedRow] = []
    refused: Counter[str | None] = Counter()
    for at, raw in enumerate(read_raw_rows(path, wanted.layout)):
        try:
            assert raw.reason is None, raw.reason
            place = Place(split, wanted.role_of(split), at, path.name.partition(".")[0])
            found += wanted.read(Row(raw.value), place)
        except OtherSplit:
            pass
        except DatasetError as error:
            refused[error.field] += 1
    return found, refused


def imported(name: str, source: Path | str, output: Path, **more: Any) -> ImportManifest:
    """Import a set with the defaults of the command."""
    return import_set(ImportOrder(find_format(name), str(source), output, **more))
