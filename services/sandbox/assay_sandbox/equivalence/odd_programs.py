"""Small programs about the surroundings of a program: its start, names, streams and end.

Each tests a single behaviour that a fork of a warm interpreter, or a harness, may spoil. They are
stored in `odd_programs.txt`, each after a line `#: name`.
"""

from collections.abc import Iterator
from pathlib import Path

from assay_sandbox.equivalence.subjects import Subject

_PREFIX = "#: "
_STDIN = "first\nsecond"


def odd_subjects(data: Path) -> Iterator[Subject]:
    """Yield a script for each program. If its name has `empty` in it, its stdin is empty."""
    text = Path(__file__).with_suffix(".txt").read_text()
    for part in f"\n{text}".split(f"\n{_PREFIX}")[1:]:
        name, _, code = part.partition("\n")
        yield Subject(name, "odd", "script", code, stdin="" if "empty" in name else _STDIN)
