"""Samples as CSV that a spreadsheet opens without running anything of it."""

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from assay_trainer.browser.exports.flat_rows import SampleColumn, Value

#: A cell that begins with one of these is a formula to a spreadsheet; some skip blanks before it.
#: A ' is quoted too: without the first ' of a cell, its text is again as it was.
_FORMULA = re.compile(
    r"'|\s*[=+\-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
    r"\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}]|[\t\r]"
)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def write_csv(path: Path, columns: Sequence[SampleColumn], rows: Iterable[Sequence[Value]]) -> int:
    """Write a table in UTF-8 with a heading; return the number of its rows."""
    number = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow([harmless(column.name) for column in columns])
        for row in rows:
            writer.writerow([harmless(one) if isinstance(one, str) else one for one in row])
            number += 1
    return number


def harmless(text: str) -> str:
    """Return a text with a ' in front if a spreadsheet would take it for a formula.

    A number, such as -5, stays as it is.
    """
    if not _FORMULA.match(text) or _NUMBER.fullmatch(text):
        return text
    return "'" + text
