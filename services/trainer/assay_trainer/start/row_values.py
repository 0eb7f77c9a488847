"""Checks of the rows that a run is made of."""

from collections.abc import Mapping
from typing import Any

from assay_shared.errors import DatasetError
from assay_shared.types import Task
from assay_trainer.data.tables import filled, value_of
from assay_trainer.start.columns import TaskColumns, row_text


def checked_row(row: object, columns: TaskColumns) -> dict[str, Any]:
    """Return a row whose prompt and answer are texts or finite numbers.

    Raises:
        DatasetError: it has another prompt or answer, or a text that no file can hold; names the
            column.
    """
    if not isinstance(row, dict):
        raise DatasetError(f"a row must be an object, not {type(row).__name__}")
    for column in (columns.prompt, columns.answer):
        if not str(_given(row, column)).strip():
            raise DatasetError("it is empty; leave the row out, or fill it", field=column)
        _check_text(filled([("", column, None)], row), column)
    for name, value in row.items():
        # Other columns are written with the row, so a half of a surrogate pair breaks the file.
        _check_pairs(row_text({name: value}), str(name))
    return row


def checked_task(row: object) -> Task:
    """Return a row of Assay's own tasks.

    Raises:
        ValidationError, DatasetError: a field cannot be used; names it.
    """
    task = Task.model_validate(row)
    _check_text(task.prompt, "prompt")
    for name in ("gold", "reference"):
        _check_text(getattr(task, name) or "", name)
    return task


def _given(row: Mapping[str, Any], column: str) -> Any:
    value = row.get(column) if column in row else value_of(row, column)
    return "" if value is None else value


def _check_text(text: str, column: str) -> None:
    _check_pairs(text, column)
    if "\0" in text:
        raise DatasetError(
            f"has the character U+0000 at {text.index(chr(0))}, which tokenizers and databases "
            "do not take; remove it",
            field=column,
        )


def _check_pairs(text: str, column: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = f"\\u{ord(text[error.start]):04x}"
        raise DatasetError(
            f"has half of a surrogate pair, {shown}; remove it",
            field=column.encode(errors="backslashreplace").decode(),
        ) from None
