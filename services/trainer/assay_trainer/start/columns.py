"""The columns of a data file: the prompt's and the answer's."""

import csv
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from assay_shared.errors import DatasetError
from assay_shared.runs.json_lines import read_json_lines
from assay_trainer.data.tables import JSON_LINES, SAVE_AS_UTF8, TABLES, value_of

#: Usual names, the likeliest first.
_PROMPTS = ("prompt", "question", "problem", "instruction", "query", "input")
_ANSWERS = (
    "answer",
    "reference",
    "final_answer",
    "ground_truth",
    "solution",
    "gold",
    "target",
    "label",
    "expected",
    "output",
    "response",
    "completion",
)
#: Columns of a multiple choice: a list in one column, or a column for each choice.
_CHOICES = {"choices", "options", "endings", "candidates"}
_CHOICE = re.compile(r"(?:(?:option|choice|ending)[ _]?)?[a-d0-4]", re.IGNORECASE)
_SEEN_ROWS = 64
_MOST_SHOWN = 40
_SEPARATORS = (";", "\t", "|")
_NUMBER = re.compile(r"[-+]?[$€£]?\d[\d,]*(?:\.\d+)?(?:/\d+)?%?")


@dataclass(frozen=True)
class TaskColumns:
    """The columns of prompt and answer, some answers, and the columns that are left."""

    prompt: str
    answer: str
    answers: tuple[str, ...]
    unused: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """Return the columns in words."""
        told = f"columns {self.prompt} and {self.answer}"
        return f"{told}; not used: {_listed(self.unused)}" if self.unused else told

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the unused columns that look like the choices of a multiple choice."""
        lists = tuple(one for one in self.unused if one.lower() in _CHOICES)
        single = tuple(one for one in self.unused if _CHOICE.fullmatch(one))
        return lists or (single if len(single) > 1 else ())

    @property
    def has_hashes(self) -> bool:
        """Return True if each answer ends as GSM8K's, after ####."""
        return bool(self.answers) and all("####" in one for one in self.answers)

    @property
    def has_boxes(self) -> bool:
        """Return True if each answer has a box."""
        return bool(self.answers) and all("\\boxed{" in one for one in self.answers)

    @property
    def are_numbers(self) -> bool:
        """Return True if nearly all answers are numbers alone."""
        known = [one for one in self.answers if _NUMBER.fullmatch(one.strip())]
        return bool(self.answers) and len(known) >= 0.9 * len(self.answers)


def first_rows(path: Path, number: int = _SEEN_ROWS) -> list[dict[str, Any]]:
    """Return the first rows of a file.

    Raises:
        DatasetError: the file is missing, has another form or no row.
    """
    if not path.is_file():
        raise DatasetError(f"there is no file {path}", field="--data")
    if not path.name.endswith(TABLES):
        raise DatasetError(f"{path} does not end with {', '.join(TABLES)}", field="--data")
    try:
        rows = list(itertools.islice(_rows(path), number))
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except (pyarrow.ArrowException, OSError, csv.Error) as error:
        reason = " ".join(str(error).split())[:300]
        raise DatasetError(f"{path} cannot be read: {reason}", field="--data") from None
    if not rows:
        raise DatasetError(f"{path} has no row", field="--data")
    return rows


def _not_utf8(path: Path) -> DatasetError:
    """Return the error of a text file, with its first line that is not UTF-8."""
    place, told = "", "a line"
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                place, told = f":{number}", f"byte 0x{line[error.start]:02x}"
                break
    return DatasetError(f"{path}{place} is not UTF-8: {told}", field="--data", hint=SAVE_AS_UTF8)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.name.endswith(JSON_LINES):
        yield from read_json_lines(path, _object)
    elif path.suffix == ".parquet":
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_SEEN_ROWS):
                yield from batch.to_pylist()
    else:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            yield from csv.DictReader(lines)


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DatasetError(f"a row must be an object, not {type(value).__name__}")
    return value


def find_columns(
    rows: Sequence[Mapping[str, Any]], where: str, prompt: str | None, answer: str | None
) -> TaskColumns:
    """Return the columns of prompt and answer, as named or by their usual names.

    Raises:
        DatasetError: there is no such column; lists those that there are.
    """
    there = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
    _check_separator(there, where)
    asks = _column(there, prompt, _PROMPTS, "prompt", where)
    left = [one for one in there if one != asks]
    answers = _column(left, answer, _ANSWERS, "answer", where)
    found = tuple(_shown_answer(row, answers) for row in rows)
    used = {part for one in (asks, answers) for part in (one, one.partition(".")[0])}
    unused = tuple(str(one) for one in there if one not in used)
    return TaskColumns(asks, answers, tuple(one for one in found if one), unused)


def _check_separator(there: Sequence[str], where: str) -> None:
    separator = next((one for one in _SEPARATORS if len(there) == 1 and one in there[0]), None)
    if separator is not None:
        raise DatasetError(
            f"{where} has one column, {_listed(there)}: it seems to be separated by {separator!r}",
            field="--data",
            hint="save it with commas, or as JSON lines",
        )


def _shown_answer(row: Mapping[str, Any], column: str) -> str:
    """Return an answer as text; an empty one if there is none in this row."""
    try:
        value = value_of(row, column)
    except DatasetError:
        return ""
    return "" if value is None else str(value)


def _listed(columns: Sequence[object]) -> str:
    shown = ", ".join(f"{one!s:.80}" for one in columns[:_MOST_SHOWN])
    return shown + (f" and {len(columns) - _MOST_SHOWN} more" * (len(columns) > _MOST_SHOWN))


def _column(
    there: Sequence[str], named: str | None, usual: Sequence[str], what: str, where: str
) -> str:
    listed = _listed(there)
    if named is not None:
        if named not in there and named.partition(".")[0] not in there:
            message = f"{where} has no column {named!r:.100}. There are: {listed}"
            raise DatasetError(message, field=f"--{what}-column")
        return named
    lower = {str(one).lower(): str(one) for one in reversed(there)}
    for name in usual:
        if name in lower:
            return lower[name]
    raise DatasetError(
        f"{where} has no {what} column: none is named {', '.join(usual[:5])} or alike. "
        f"There are: {listed}",
        field="--data",
        hint=f"--{what}-column names it",
    )


def is_task(row: Mapping[str, Any]) -> bool:
    """Return True for a row in the form of Assay's own tasks."""
    return {"id", "role", "rubric", "prompt"} <= row.keys()


def row_text(row: Mapping[str, Any]) -> str:
    """Return a row as a line of JSON."""
    return json.dumps(row, ensure_ascii=False, default=str)
