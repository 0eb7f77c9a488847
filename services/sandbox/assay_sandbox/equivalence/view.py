"""The command's options, progress display and tables."""

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from assay_sandbox.equivalence import report
from assay_sandbox.equivalence.corpora import Choice, subjects_of
from assay_sandbox.equivalence.measure import EquivalenceResult, EquivalenceRun
from assay_sandbox.equivalence.plain import PlainPython, plain_interpreter
from assay_sandbox.equivalence.slot import SlotPython, local_sandbox, remote_sandbox
from assay_sandbox.equivalence.subjects import limits_of
from assay_sandbox.settings import SandboxSettings
from assay_shared.interfaces import Sandbox
from assay_shared.settings.environment import read_settings
from assay_shared.types import Limits

_MAX_SHOWN = 30


@dataclass(frozen=True)
class ViewOptions:
    """Options of the command line."""

    data: Path
    choice: Choice
    jobs: int
    cpu_time_s: float
    url: str | None = None


async def measure(options: ViewOptions, console: Console, seen: EquivalenceResult) -> None:
    """Run the chosen subjects both ways, show the progress, and add the results to `seen`."""
    subjects = subjects_of(options.choice, options.data)
    limits = limits_of(options.cpu_time_s)
    settings = read_settings(SandboxSettings)
    with plain_interpreter(settings) as python:
        async with _sandbox(options, limits) as sandbox:
            plain = PlainPython(python, limits, options.jobs)
            comparison = EquivalenceRun(plain, SlotPython(sandbox, limits), limits)
            with Progress(console=console) as progress:
                task = progress.add_task("compared", total=len(subjects))

                def show() -> None:
                    text = f"{len(seen.unexplained)} unexplained"
                    progress.update(task, completed=seen.num_subjects, description=text)

                await comparison.measure(subjects, options.jobs, seen, show)


def _sandbox(options: ViewOptions, limits: Limits) -> AbstractAsyncContextManager[Sandbox]:
    if options.url is None:
        return local_sandbox(options.jobs)
    return remote_sandbox(options.url, limits)


def show(seen: EquivalenceResult, console: Console) -> None:
    """Print the tables and the unexplained differences."""
    console.print(_table(report.HEADINGS, list(report.rows(seen))))
    reasons = list(report.explanation_rows(seen))
    if reasons:
        console.print(_table(("rule", "differences", "reason"), reasons))
    graded = ", ".join(f"{count} {name}" for name, count in sorted(seen.num_by_grading.items()))
    console.print(f"judged: {graded or 'none'}; standard error differs: {len(seen.other_stderr)}")
    for one in seen.unexplained[:_MAX_SHOWN]:
        for line in report.describe(one):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    more = len(seen.unexplained) - _MAX_SHOWN
    if more > 0:
        console.print(f"... and {more} more: --output has them all")


def write(seen: EquivalenceResult, path: Path) -> None:
    """Write the whole measurement to a file, as JSON."""
    path.write_text(json.dumps(report.facts(seen), indent=1))


def _table(headings: Sequence[str], lines: Sequence[tuple[str, ...]]) -> Table:
    table = Table(*headings)
    for line in lines:
        table.add_row(*line)
    return table
