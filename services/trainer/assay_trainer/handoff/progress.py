"""The parts of a hand-off in a terminal, each with its progress."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from assay_shared.text.markdown import visible
from assay_trainer.handoff.checks.check import CheckVerdict
from assay_trainer.handoff.manifest import HandoffManifest

_COLOURS = {CheckVerdict.PASS: "green", CheckVerdict.FAIL: "bold red", CheckVerdict.SKIPPED: "dim"}


class HandoffProgress:
    """A bar for each part of a hand-off, on standard error; use it in a `with` statement."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )

    def __enter__(self) -> "HandoffProgress":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    @contextmanager
    def part(self, name: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
        """Show a part while its block runs; yield a function that takes what was done."""
        task = self._bars.add_task(name, total=total)
        try:
            yield lambda done: self._bars.advance(task, done)
        finally:
            self._bars.update(task, total=1, completed=1)


def check_table(manifest: HandoffManifest) -> Table:
    """Return the checks as a table for a terminal."""
    from rich.text import Text

    table = Table("check", "verdict", "evidence", box=None, padding=(0, 2, 0, 0))
    for one in manifest.checks:
        verdict = Text(one.verdict, _COLOURS[one.verdict])
        table.add_row(one.name, verdict, Text(visible(one.evidence)))
    return table
