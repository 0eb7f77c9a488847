"""Rows of published files, one after another: JSON Lines, JSON, CSV and Parquet, also by gzip.

A row that cannot be read is yielded with the reason, so that a reader can count it. Memory does
not grow with a file's rows, except for a JSON file that holds an object with a list in it.
"""

import csv
import gzip
import itertools
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow
import pyarrow.parquet

from assay_shared.errors import DatasetError
from assay_shared.text.strict_json import read_strict_json, read_strict_json_at

#: The ends of names of files that can be read.
ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".csv", ".csv.gz", ".parquet")
#: A longer line, or item of an array, is refused.
MAX_ROW_BYTES = 64 * 2**20
#: A JSON file of one object is read whole.
_MAX_OBJECT_BYTES = 512 * 2**20
_BUFFER_BYTES = 2**20
_BATCH_ROWS = 1024
_TEXT, _WIDE = pyarrow.string(), pyarrow.float64()
_OTHER_FORMS = {
    b"\x1f\x8b": "compressed by gzip: its name must end with .gz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: decompress it first",
    b"\xfd7zXZ": "compressed by xz: decompress it first",
    b"BZh": "compressed by bzip2: decompress it first",
    b"PK\x03\x04": "a ZIP archive: unpack it first",
    b"PAR1": "a Parquet file: its name must end with .parquet",
    b"\xff\xfe": "UTF-16: convert it to UTF-8",
    b"\xfe\xff": "UTF-16: convert it to UTF-8",
}
_MAX_MAGIC_BYTES = max(map(len, _OTHER_FORMS))
#: Keys of an object whose lists are splits, and not one row.
_WRAPPERS = {"train", "test", "validation", "valid", "val", "dev", "data", "rows", "examples"}
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_MARK = b"\xef\xbb\xbf"
#: Up to the next text, bracket or comma of JSON, and this token.
_TOKEN = re.compile(r'[^"\[\]{},]*+("(?:[^"\\]|\\.)*+"|[\[\]{},])', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class RawRow:
    """A row by its line or number from 1: its value, or the reason why it cannot be read."""

    number: int
    value: Any = None
    reason: str | None = None


@dataclass(frozen=True)
class Layout:
    """Facts of a format's files that the files do not tell."""

    #: Names of the columns of a CSV file without a heading.
    csv_columns: Sequence[str] | None = None
    #: The key of the list of rows in a JSON file of one object.
    list_key: str | None = None


def read_raw_rows(path: Path, layout: Layout) -> Iterator[RawRow]:
    """Yield the rows of a file, by the end of its name.

    Raises:
        DatasetError: there is no such file, its name has another end, or it breaks off.
    """
    name = path.name.lower().removesuffix(".gz")
    if not path.name.lower().endswith(ENDINGS):
        raise DatasetError(f"{path} does not end with {', '.join(ENDINGS)}", field="path")
    with _told(path):
        if name.endswith(".parquet"):
            yield from _parquet(path)
            return
        _refuse_other_form(path)
        if name.endswith(".csv"):
            yield from _csv(path, layout.csv_columns)
        elif name.endswith(".json"):
            yield from _json(path, layout.list_key)
        else:
            yield from _lines(path)


def _refuse_other_form(path: Path) -> None:
    """Check the first bytes of a file of text.

    Raises:
        DatasetError: they are those of a compressed file, or of another encoding.
    """
    with _opened(path) as file:
        start = file.read(_MAX_MAGIC_BYTES)
    for magic, told in _OTHER_FORMS.items():
        if start.startswith(magic):
            raise DatasetError(f"{path} is {told}", field="path")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn errors of a whole file into ours."""
    try:
        yield
    except FileNotFoundError:
        raise DatasetError(f"there is no file {path}", field="path") from None
    except (
        OSError,
        EOFError,
        UnicodeError,
        zlib.error,
        pyarrow.ArrowException,
        csv.Error,
    ) as error:
        reason = " ".join(str(error).split())[:300]
        raise DatasetError(f"{path} cannot be read: {reason}", field="path") from None


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _lines(path: Path) -> Iterator[RawRow]:
    """Yield the lines of a file that are not empty; only "\\n" ends a line."""
    with _opened(path) as file:
        number = 0
        while line := file.readline(MAX_ROW_BYTES):
            number += 1
            if len(line) == MAX_ROW_BYTES and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_ROW_BYTES)
                yield RawRow(number, reason=f"a line of more than {MAX_ROW_BYTES} bytes")
                continue
            line = line.removeprefix(_MARK) if number == 1 else line
            if line.strip():
                yield parsed(number, line)


def parsed(number: int, text: bytes) -> RawRow:
    """Return a row of a JSON text, or the reason why it is none."""
    try:
        return RawRow(number, read_strict_json(text.decode(), takes_nan=True))
    except UnicodeDecodeError:
        return RawRow(number, reason="not UTF-8")
    except json.JSONDecodeError as error:
        return RawRow(number, reason=f"not JSON: {error.msg}")
    except ValueError as error:
        return RawRow(number, reason=f"not JSON that can be read: {error}")


def _json(path: Path, list_key: str | None) -> Iterator[RawRow]:
    """Yield the items of an array, the list in an object, or lines if the first is a row."""
    with _opened(path) as file:
        start = file.read(_BUFFER_BYTES).removeprefix(_MARK).lstrip()
    if start.startswith(b"["):
        yield from _array(path)
        return
    first, newline, _ = start.partition(b"\n")
    if newline and parsed(1, first).reason is None:
        yield from _lines(path)
        return
    with _opened(path) as file:
        text = file.read(_MAX_OBJECT_BYTES + 1)
    if len(text) > _MAX_OBJECT_BYTES:
        raise DatasetError(f"{path} is an object of more than {_MAX_OBJECT_BYTES} bytes")
    whole = parsed(1, text.removeprefix(_MARK))
    if whole.reason is not None:
        raise DatasetError(f"{path}: {whole.reason}")
    if list_key is None:
        if isinstance(whole.value, dict) and whole.value.keys() <= _WRAPPERS:
            keys = ", ".join(whole.value)
            raise DatasetError(
                f"{path} is an object with lists of rows: {keys}",
                field="path",
                hint="write one file for each list: an array, or a row a line",
            )
        yield whole
        return
    rows = whole.value.get(list_key) if isinstance(whole.value, dict) else None
    if not isinstance(rows, list):
        raise DatasetError(f"{path} has no list of rows", field=list_key)
    yield from (RawRow(number, row) for number, row in enumerate(rows, start=1))


def _array(path: Path) -> Iterator[RawRow]:
    """Yield the items of an array, with a part of the file in memory."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        reader = _ArrayReader(path, file)
        number = 1
        while (item := reader.next_item(number)) is not None:
            yield item
            number += 1


class _ArrayReader:
    """Reads a JSON array item by item."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self._path, self._file = path, file
        self._buffer, self._at = "[", 1
        self._fill()
        self._at = self._buffer.index("[") + 1

    def next_item(self, number: int) -> RawRow | None:
        """Return the next item; None after the last."""
        while True:
            self._at = _SPACE.match(self._buffer, self._at).end()  # type: ignore[union-attr]
            if self._buffer.startswith("]", self._at):
                return None
            row, end = self._item(number)
            end = _SPACE.match(self._buffer, end).end()  # type: ignore[union-attr]
            if end < len(self._buffer) and self._buffer[end] in ",]":
                self._at = end + (self._buffer[end] == ",")
                return row
            cut = self._cut()
            if cut is not None:
                self._at = cut + (self._buffer[cut] == ",")
                return RawRow(number, reason="not JSON: there is no comma after a value")
            self._fill()

    def _item(self, number: int) -> tuple[RawRow, int]:
        """Return the item and its end; the end of the buffer for an item that is cut off."""
        try:
            value, end = read_strict_json_at(self._buffer, self._at)
        except json.JSONDecodeError as error:
            reason = f"not JSON: {error.msg}"
        except ValueError as error:
            reason = f"not JSON that can be read: {error}"
        else:
            return RawRow(number, value), end
        cut = self._cut()
        return RawRow(number, reason=reason), len(self._buffer) if cut is None else cut

    def _cut(self) -> int | None:
        """Return the place of the comma or bracket after the item; None if it is not there yet."""
        at, depth = self._at, 0
        while found := _TOKEN.match(self._buffer, at):
            sign, at = found[1], found.end()
            if sign in ("[", "{"):
                depth += 1
            elif depth and sign in ("]", "}"):
                depth -= 1
            elif not depth and sign in (",", "]"):
                return at - 1
        return None

    def _fill(self) -> None:
        rest = self._buffer[self._at :]
        if len(rest) > MAX_ROW_BYTES:
            raise DatasetError(f"{self._path} has an item of more than {MAX_ROW_BYTES} signs")
        more = self._file.read(max(_BUFFER_BYTES, len(rest)))
        if not more and self._buffer:
            raise DatasetError(f"{self._path} breaks off: its array has no end", field="path")
        self._buffer, self._at = rest + more, 0


def _csv(path: Path, columns: Sequence[str] | None) -> Iterator[RawRow]:
    """Yield the rows of a CSV file as texts, with the line that each ends in."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    csv.field_size_limit(MAX_ROW_BYTES)
    with opened(path, "rt", encoding="utf-8-sig", newline="", errors="surrogateescape") as file:
        reader = csv.reader(file, strict=True)
        names = columns if columns is not None else next(reader, [])
        for separator, told in _SEPARATORS.items():
            if len(names) == 1 and separator in names[0]:
                raise DatasetError(
                    f"{path} separates its columns by {told}: commas are needed", field="path"
                )
        for values in reader:
            if not values:
                continue
            if len(values) != len(names):
                reason = f"{len(values)} values in a row of {len(names)} columns"
                yield RawRow(reader.line_num, reason=reason)
            else:
                yield RawRow(reader.line_num, dict(zip(names, values, strict=True)))


def _parquet(path: Path) -> Iterator[RawRow]:
    number = itertools.count(1)
    for batch in read_parquet(path):
        for row in batch:
            yield RawRow(next(number), row)


def read_parquet(
    path: Path, choose: Callable[[list[str]], Sequence[str] | None] = lambda names: None
) -> Iterator[list[dict[str, object]]]:
    """Yield a file's rows by batches, with the columns chosen from their names.

    Raises:
        OSError, pyarrow.ArrowException: the file cannot be read.
    """
    # Without these two, all that was read so far stays in memory.
    with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
        columns = choose(file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
            yield _with_own_digits(pyarrow.Table.from_batches([batch])).to_pylist()


def _with_own_digits(table: pyarrow.Table) -> pyarrow.Table:
    """Return a table with 0.1 where a float32 column has the nearest number to it.

    Python's own numbers are float64: there this number is 0.10000000149011612.
    """
    texts, wide = (_replaced_schema(table.schema, kind) for kind in (_TEXT, _WIDE))
    return table if wide == table.schema else table.cast(texts).cast(wide)


def _replaced_schema(schema: pyarrow.Schema, kind: pyarrow.DataType) -> pyarrow.Schema:
    return pyarrow.schema([_replaced_field(field, kind) for field in schema])


def _replaced_field(field: pyarrow.Field, kind: pyarrow.DataType) -> pyarrow.Field:
    return field.with_type(_replaced(field.type, kind))


def _replaced(type_: pyarrow.DataType, kind: pyarrow.DataType) -> pyarrow.DataType:
    """Return a type with `kind` in place of float32, at any depth of lists and structs."""
    if pyarrow.types.is_float32(type_):
        return kind
    if pyarrow.types.is_list(type_):
        return pyarrow.list_(_replaced_field(type_.value_field, kind))
    if pyarrow.types.is_large_list(type_):
        return pyarrow.large_list(_replaced_field(type_.value_field, kind))
    if pyarrow.types.is_struct(type_):
        return pyarrow.struct([_replaced_field(field, kind) for field in type_.fields])
    return type_
