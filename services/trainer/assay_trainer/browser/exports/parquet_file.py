"""Samples as Parquet, in row groups of a bounded size."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from assay_trainer.browser.exports.flat_rows import SampleColumn, Value

_TYPES = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64()}
_MOST_ROWS, _MOST_CHARACTERS = 2000, 16 * 2**20


def write_parquet(
    path: Path, columns: Sequence[SampleColumn], rows: Iterable[Sequence[Value]]
) -> int:
    """Write a table, texts as they are; return the number of its rows."""
    schema = pa.schema([(column.name, _TYPES[column.kind]) for column in columns])
    number = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for some in _portions(rows):
            arrays = [
                pa.array(values, type=column.type)
                for values, column in zip(zip(*some, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            number += len(some)
    return number


def _portions(rows: Iterable[Sequence[Value]]) -> Iterator[list[Sequence[Value]]]:
    """Yield the rows in lists with few enough rows and characters for one write."""
    some: list[Sequence[Value]] = []
    size = 0
    for row in rows:
        some.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
        if len(some) == _MOST_ROWS or size >= _MOST_CHARACTERS:
            yield some
            some, size = [], 0
    if some:
        yield some
