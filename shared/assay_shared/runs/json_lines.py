"""Reader of JSON lines files as typed rows."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar, cast

from pydantic import ValidationError

from assay_shared.errors import DatasetError
from assay_shared.settings.validation import message_in_row
from assay_shared.text.strict_json import DuplicateKey, read_strict_json

Row = TypeVar("Row")
#: Most characters shown of a name or a reason.
_MAX_SHOWN = 200
_JSON_LINES = "the file must be JSON Lines: one JSON value on each line"


def read_json_lines(
    path: Path, parse: Callable[[object], Row], id_of: Callable[[Row], str] | None = None
) -> Iterator[Row]:
    """Yield the rows of a file; skip empty lines and a byte order mark at the beginning.

    A file named `.gz` is decompressed. `parse` makes a row of a line's JSON, for example a model's
    `model_validate`. With `id_of`, no two rows may have the same id.

    Raises:
        DatasetError: a row cannot be used; names file, line and field of the first such row.
    """
    for _, row in read_numbered_rows(path, parse, id_of):
        yield row


def read_numbered_rows(
    path: Path, parse: Callable[[object], Row], id_of: Callable[[Row], str] | None = None
) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a file as `read_json_lines` does, each with the number of its line."""
    seen: dict[str, int] = {}
    for number, line in _lines(path):
        where = f"{path}:{number}"
        row = _parse(line, parse, where)
        if id_of is not None:
            name = id_of(row)
            if name in seen:
                raise DatasetError(
                    f"{where}: {name!r} stands in line {seen[name]} already", field="id"
                )
            seen[name] = number
        yield number, row


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines, except empty lines, with their numbers from 1."""
    number = 0
    try:
        # Bytes: only "\n" ends a line. JSON strings may hold other characters that texts split at.
        with _opened(path) as file:
            for number, line in enumerate(file, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if text.strip():
                    yield number, text
    except FileNotFoundError:
        raise DatasetError(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        reason = f"{error.reason} (byte {error.start})"
        raise DatasetError(
            f"{path}:{number}: not UTF-8: {reason}",
            hint="save the file as UTF-8, for example with iconv -f latin1 -t utf-8",
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        shown = getattr(error, "strerror", None) or str(error)
        raise DatasetError(f"{path} cannot be read after line {number}: {shown}") from None


def _parse(line: str, parse: Callable[[object], Row], where: str) -> Row:
    row = _value(line, where)
    try:
        return parse(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["msg"].startswith("Recursion error"):
            first |= {"loc": first["loc"][:2], "msg": "nests too deeply"}
        name = ".".join(map(str, first["loc"]))[:_MAX_SHOWN] or None
        told = f"{where}: {message_in_row(first):.{_MAX_SHOWN}}"
        raise DatasetError(told, field=name) from None
    except DatasetError as error:
        told = f"{where}: {error.message}"
        raise DatasetError(told, field=error.field, hint=error.hint) from None


def _value(line: str, where: str) -> object:
    try:
        return read_strict_json(line, takes_nan=True)
    except json.JSONDecodeError as error:
        raise DatasetError(f"{where}: not JSON: {error.msg}", hint=_JSON_LINES) from None
    except DuplicateKey as error:
        raise DatasetError(f"{where}: {error}") from None
    except ValueError as error:  # too deeply nested, or a number with thousands of digits
        raise DatasetError(f"{where}: not JSON that can be read: {error}") from None
