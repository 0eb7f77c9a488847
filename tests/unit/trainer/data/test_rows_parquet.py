"""Rows of Parquet files, as a user sees their numbers."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from assay_trainer.data.rows import read_parquet

F32 = pyarrow.float32()
NAN = float("nan")

COLUMNS: dict[str, tuple[pyarrow.DataType, list[Any]]] = {
    "float32": (F32, [0.1, 3.3, -1e-8, 16777216.0, None]),
    "float64": (pyarrow.float64(), [0.1, 0.10000000149011612]),
    "list": (pyarrow.list_(F32), [[0.1, None], [], None]),
    "large list": (pyarrow.large_list(F32), [[0.1], None]),
    "struct": (
        pyarrow.struct([("a", F32), ("b", pyarrow.list_(pyarrow.int64()))]),
        [{"a": 0.1, "b": [1]}, {"a": None, "b": None}, None],
    ),
    "other types": (pyarrow.decimal128(5, 2), [Decimal("0.10"), None]),
    "texts": (pyarrow.string(), ["0.10", ""]),
}


def written(folder: Path, column: pyarrow.Array, **options: Any) -> Path:
    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"x": column}), path, **options)
    return path


@pytest.mark.parametrize("name", COLUMNS)
def test_numbers_have_the_digits_of_their_column(tmp_path: Path, name: str) -> None:
    kind, values = COLUMNS[name]
    path = written(tmp_path, pyarrow.array(values, kind))
    (batch,) = read_parquet(path)
    assert [row["x"] for row in batch] == values


def test_numbers_that_are_not_finite_stay_so(tmp_path: Path) -> None:
    path = written(tmp_path, pyarrow.array([float("inf"), -float("inf"), NAN], F32))
    (batch,) = read_parquet(path)
    assert [str(row["x"]) for row in batch] == ["inf", "-inf", "nan"]


def test_categories_of_numbers_are_read(tmp_path: Path) -> None:
    column = pyarrow.array([0.1, 0.1, 3.3], F32).dictionary_encode()
    (batch,) = read_parquet(written(tmp_path, column))
    assert [row["x"] for row in batch] == [0.1, 0.1, 3.3]


def test_rows_come_by_batches_with_the_chosen_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"x": range(3000), "y": range(3000)}), path)
    batches = list(read_parquet(path, lambda names: names[1:]))
    assert len(batches) > 1
    assert [row for batch in batches for row in batch] == [{"y": at} for at in range(3000)]
