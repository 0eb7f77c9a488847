"""Rows of Parquet, CSV and JSONL files as tasks or preferences, by the map of the run file."""

import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pyarrow
import pyarrow.csv

from assay_shared.answers.extraction import last_boxed
from assay_shared.errors import DatasetError
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.types import Role, Task
from assay_trainer.data.rows import read_parquet
from assay_trainer.table_source import (
    Extractor,
    PreferenceMap,
    RowMap,
    columns_of,
    template_parts,
)

Row = TypeVar("Row")
JSON_LINES = (".jsonl", ".jsonl.gz")
TABLES = (".parquet", ".csv", *JSON_LINES)
SAVE_AS_UTF8 = "save it as UTF-8, for example with iconv -f latin1 -t utf-8"
_CSV_BLOCK_BYTES = 2**22
_MAX_COLUMNS_SHOWN = 40
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#: What GSM8K's authors asked a calculator while they wrote an answer; no part of its text.
_CALCULATION = re.compile(r"<<[^<>]*>>")

#: How a list of messages begins as JSON.
_CHAT = re.compile(r"\s*\[\s*\{")
#: Columns that a row of preferences may have without a map's naming them.
_OF_PREFERENCES = ("prompt_format",)
#: Python's form of messages, which pandas writes into a CSV file.
_PRINTED_CHAT = re.compile(r"\s*(array\()?\[\s*\{\s*'(role|content)'\s*:")


class _BadValue(DatasetError):
    """A value of one row: others may be good."""


def row_parser(
    row_map: RowMap,
    dataset: str,
    role: Role,
    numbers: Iterator[int],
    unusable: dict[str, str] | None,
) -> Callable[[object], Task]:
    """Return a function from rows to tasks, whose ids have the next of `numbers`.

    The function raises DatasetError, with the column, for a row that makes no task. With
    `unusable`, a bad value there adds the reason under the task's id instead: such a task has no
    prompt.
    """
    templates = {name: list(template_parts(text)) for name, text in row_map.templates.items()}

    def parse(row: object) -> Task:
        if not isinstance(row, Mapping):
            raise DatasetError(f"a row must be an object, not {type(row).__name__}")
        name = f"{dataset}/{role}/{next(numbers)}"
        try:
            texts = {field: filled(parts, row) for field, parts in templates.items()}
        except _BadValue as error:
            if unusable is None:
                raise
            unusable[name], texts = str(error), {}
        return Task(
            id=name,
            dataset=dataset,
            role=role,
            prompt=texts.get("prompt", ""),
            rubric=row_map.rubric,
            gold=texts.get("gold"),
            reference=texts.get("reference"),
        )

    return parse


def filled(
    parts: Iterable[tuple[str, str | None, Extractor | None]], row: Mapping[str, Any]
) -> str:
    """Return a template with the values of a row.

    Raises:
        DatasetError: a column is missing, or its value is not a text; names the column.
    """
    return "".join(
        literal + ("" if column is None else _text(row, column, extractor))
        for literal, column, extractor in parts
    )


def check_table(path: Path) -> None:
    """Check that a path can be a file with a row per task or preference.

    Raises:
        DatasetError: it is a folder, or the name has none of the known ends.
    """
    if path.is_dir():
        raise DatasetError(f"{path} is a folder", field="path", hint="name a file in it")
    if not path.name.endswith(TABLES):
        raise DatasetError(f"{path} does not end with {', '.join(TABLES)}", field="path")


def read_rows(
    path: Path, row_map: RowMap | PreferenceMap, parse: Callable[[object], Row]
) -> Iterator[Row]:
    """Yield what `parse` makes of each row of a file, by the end of its name.

    Raises:
        DatasetError: the name has none of the known ends, or a row cannot be used; names file,
            row or line, and field.
    """
    check_table(path)
    if path.name.endswith(JSON_LINES):
        yield from read_json_lines(path, parse)
    else:
        yield from _read_columns(path, row_map, parse)


def _read_columns(
    path: Path, row_map: RowMap | PreferenceMap, parse: Callable[[object], Row]
) -> Iterator[Row]:
    """Yield what `parse` makes of each row of a Parquet or CSV file, a batch of rows in memory.

    Raises:
        DatasetError: the file cannot be read, lacks a column, or a row cannot be used; names the
            file, the row from 1, and the column.
    """
    columns = [one for text in row_map.templates.values() for one in columns_of(text)]
    optional = _OF_PREFERENCES if isinstance(row_map, PreferenceMap) else ()
    batches = _parquet_rows if path.suffix == ".parquet" else _csv_rows
    number = 0
    try:
        for batch in batches(path, columns, optional):
            for row in batch:
                number += 1
                yield _parsed(row, parse, f"{path}:{number}")
    except FileNotFoundError:
        raise DatasetError(f"there is no file {path}") from None
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:300]
        if "straddling" in reason:
            reason = f"a row has more than {_CSV_BLOCK_BYTES} bytes"
        is_other_text = path.suffix == ".csv" and "utf8" in reason.lower().replace("-", "")
        hint = SAVE_AS_UTF8 if is_other_text else None
        place = f" after row {number}" if number else ""
        message = f"{path} cannot be read{place}: {reason}"
        raise DatasetError(message, hint=hint) from None


def _parsed(row: object, parse: Callable[[object], Row], where: str) -> Row:
    try:
        return parse(row)
    except DatasetError as error:
        raise DatasetError(f"{where}: {error.message}", field=error.field) from None


def _parquet_rows(
    path: Path, columns: Iterable[str], optional: Collection[str]
) -> Iterator[list[dict[str, Any]]]:
    return read_parquet(path, lambda names: _needed(columns, optional, names, path))


def _csv_rows(
    path: Path, columns: Iterable[str], optional: Collection[str]
) -> Iterator[list[dict[str, Any]]]:
    """Yield a CSV file's rows as texts: a number stays as it is written."""
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    read = pyarrow.csv.ReadOptions(block_size=_CSV_BLOCK_BYTES)
    with pyarrow.csv.open_csv(path, read_options=read, parse_options=parse) as opened:
        needed = _needed(columns, optional, opened.schema.names, path)
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: pyarrow.string() for name in needed}, include_columns=needed
    )
    with pyarrow.csv.open_csv(path, read, parse, convert) as opened:
        for batch in opened:
            yield batch.to_pylist()


def _needed(
    columns: Iterable[str], optional: Collection[str], there: list[str], path: Path
) -> list[str]:
    """Return the file's columns that `columns` name, each once; `optional` ones if it has them."""
    needed: dict[str, None] = {}
    for column in [*columns, *(one for one in optional if one in there)]:
        top = column if column in there else column.partition(".")[0]
        if top not in there:
            raise _no_column(column, there, f"{path}: ")
        if there.count(top) > 1:
            raise DatasetError(f"{path}: there are {there.count(top)} such columns", field=top)
        needed[top] = None
    return list(needed)


def _no_column(column: str, there: Iterable[str], where: str = "") -> DatasetError:
    names = ", ".join(itertools.islice(map(str, there), _MAX_COLUMNS_SHOWN))
    return DatasetError(f"{where}there is no such column. There are: {names}", field=column)


def _text(row: Mapping[str, Any], column: str, extractor: Extractor | None) -> str:
    """Return the text of a column, or the part of it that the extractor takes."""
    value = value_of(row, column)
    if value is None:
        raise _BadValue("is null", field=column)
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        raise _BadValue(f"is {value}: a text or a finite number is needed", field=column)
    if isinstance(value, str) and _is_chat(value):
        raise _BadValue("is a chat as a text: a list of messages is needed", field=column)
    if extractor is Extractor.LETTERED:
        if not isinstance(value, list) or len(value) > len(_LETTERS):
            raise _BadValue(f"lettered takes a list of at most {len(_LETTERS)}", field=column)
        lines = zip(_LETTERS, value, strict=False)
        return "\n".join(f"{letter}. {choice}" for letter, choice in lines)
    if isinstance(value, Decimal):
        value = f"{value:f}"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _BadValue(
            f"must be a text or a number, not {type(value).__name__}; column.field and column.0 "
            "name a part",
            field=column,
        )
    found = str(value) if extractor is None else _extracted(str(value), extractor)
    if found is None:
        raise _BadValue(f"{extractor} finds nothing in {str(value)[-100:]!r}", field=column)
    return found


def _is_chat(text: str) -> bool:
    """Return True for messages that were written into a text, as JSON or as Python prints them."""
    if _PRINTED_CHAT.match(text):
        return True
    if not _CHAT.match(text):
        return False
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return all(isinstance(one, dict) and {"role", "content"} <= one.keys() for one in found)


def value_of(row: Mapping[str, Any], column: str) -> Any:
    """Return a column, or a part of it: `reward_model.ground_truth`, `messages.0.content`.

    Raises:
        DatasetError: there is no such column.
    """
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, str):
            message = f"names a part, {part!r}, of a text: a list or an object is needed"
            raise _BadValue(message, field=column)
        else:
            raise _no_column(column, value if isinstance(value, Mapping) else row)
    return value


def _extracted(text: str, extractor: Extractor) -> str | None:
    """Return the part of `text` that the extractor takes; None if it is not there."""
    if extractor is Extractor.AFTER_HASHES:
        return text.rpartition("####")[2].strip() or None if "####" in text else None
    if extractor is Extractor.BOXED:
        return last_boxed(text)
    if extractor is Extractor.NO_CALCULATOR:
        return _CALCULATION.sub("", text)
    return _LETTERS[int(text)] if text.isdecimal() and int(text) < len(_LETTERS) else None
