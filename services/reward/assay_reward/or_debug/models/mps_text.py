"""Checks of the text of an MPS file, for errors silently ignored by HiGHS.

HiGHS reads `5abc` as 5, leaves out a coefficient of nan, a second objective and a quadratic part,
and makes a new column for a bound of an unknown column. Each of these gives another model.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from assay_reward.or_debug.models import files
from assay_shared.errors import DatasetError

MAX_BYTES = 16 * 2**20
SECTIONS = ("NAME", "OBJSENSE", "ROWS", "COLUMNS", "RHS", "RANGES", "BOUNDS", "ENDATA")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eEdD][+-]?\d{1,4})?")
INFINITY = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
#: Kinds of bounds without a number.
UNNUMBERED = frozenset(("FR", "MI", "PL", "BV"))
#: Kinds of bounds that set the lower bound.
LOWER = frozenset(("LO", "MI", "FR", "FX", "LI"))


def check(path: Path) -> None:
    """Check a file.

    Raises: DatasetError, with the line, for a file other than ASCII text, too large, or with an
    error ignored by HiGHS.
    """
    columns: set[str] = set()
    bounded: set[str] = set()
    num_objectives = 0
    for where, section, fields in _lines(path):
        if section == "ROWS":
            num_objectives += fields[0].upper() == "N"
            if num_objectives > 1:
                raise DatasetError("a second objective (a row of kind N)", field=where)
        elif section == "COLUMNS" and not _is_marker(fields):
            columns.add(fields[0])
            _check_numbers(fields[2::2], where)
        elif section in ("RHS", "RANGES"):
            # The first field, the name of the set, may be missing.
            _check_numbers(fields[1 + len(fields) % 2 :: 2], where)
        elif section == "BOUNDS":
            _check_bound(fields, columns, bounded, where)


def _lines(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the place, section and fields of each data line, up to the end of the model."""
    section = ""
    for number, line in enumerate(_text(path).split("\n"), start=1):
        fields = line.split()
        if not fields or line.startswith("*"):
            continue
        where = f"{path}:{number}"
        if line[0].isspace():
            yield where, section, fields
            continue
        section = fields[0].upper()
        if section not in SECTIONS:
            hint = f"sections are {', '.join(SECTIONS)}"
            raise DatasetError(f"not MPS: there is no {fields[0]:.40}", field=where, hint=hint)
        if section == "ENDATA":
            return
    raise DatasetError("not a whole MPS file: there is no ENDATA", field=str(path))


def _text(path: Path) -> str:
    """Return the text. Raises: DatasetError: not a file, too large, packed, or not ASCII text."""
    if not path.is_file():
        raise DatasetError("no such file", field=str(path))
    try:
        text = files.read(path, MAX_BYTES).decode("ascii")
    except UnicodeDecodeError as error:
        raise DatasetError(f"not MPS, which is ASCII text: {error}", field=str(path)) from None
    if "\0" in text:
        raise DatasetError("not MPS: it holds zero bytes", field=str(path))
    return text


def _is_marker(fields: list[str]) -> bool:
    return len(fields) == 3 and fields[1].strip("'\"").upper() == "MARKER"


def _check_numbers(texts: list[str], where: str, infinite: bool = False) -> None:
    if not texts:
        raise DatasetError("a number is missing", field=where)
    for text in texts:
        if not NUMBER.fullmatch(text) and not (infinite and INFINITY.fullmatch(text)):
            raise DatasetError(f"{text[:40]!r} is not a number", field=where)


def _check_bound(fields: list[str], columns: set[str], bounded: set[str], where: str) -> None:
    """Check a bound, and add its column to `bounded` if it sets a lower bound."""
    kind = fields[0].upper()
    num_named = len(fields) if kind in UNNUMBERED else len(fields) - 1
    if num_named < 2:
        raise DatasetError("a bound has a kind, a column and a number", field=where)
    # The column stands after the name of the set, which may be missing.
    column = next((name for name in fields[1:3] if name in columns), None)
    if column is None:
        raise DatasetError(f"no column is called {fields[min(2, num_named - 1)]:.60}", field=where)
    if kind not in UNNUMBERED:
        _check_numbers(fields[-1:], where, infinite=True)
        is_lone = kind == "UP" and column not in bounded
        if is_lone and re.match(r"-[^eEdD]*[1-9]", fields[-1]):
            told = f"{column} has a negative upper bound and no lower one"
            raise DatasetError(told, field=where, hint="readers differ: add its LO or MI")
    if kind in LOWER:
        bounded.add(column)
