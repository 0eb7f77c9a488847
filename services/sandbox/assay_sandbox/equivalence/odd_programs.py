"""Small programs about what surrounds a program: its start, its names, its streams and its end.

Each does one thing that a fork of a warm interpreter, or a harness around the program, may spoil.
They stand in `odd_programs.txt`, one after the other; a line `#: name` begins each.
"""

from collections.abc import Iterator
from pathlib import Path

from assay_sandbox.equivalence.subjects import Subject

_PREFIX = "#: "
_STDIN = "first\nsecond"


def odd_subjects(data: Path) -> Iterator[Subject]:
    """One script for each; those with `empty` in their name have an empty standard input."""
    text = Path(__file__).with_suffix(".txt").read_text()
    for part in f"\n{text}".split(f"\n{_PREFIX}")[1:]:
        name, _, code = part.partition("\n")
        yield Subject(name, "odd", "script", code, stdin="" if "empty" in name else _STDIN)
