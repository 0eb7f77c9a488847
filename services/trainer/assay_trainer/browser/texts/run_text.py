"""A run as text: its state, results, sample funnel, and who waits for whom."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from assay_shared.statistics.interval import Interval
from assay_shared.text.markdown import visible
from assay_trainer.browser.facts.funnel import FunnelStage
from assay_trainer.browser.facts.summary import RunSummary

_BAR = 24


def run_lines(run: RunSummary) -> Iterator[RenderableType]:
    """Yield the parts of a run for a terminal."""
    status = run.status
    at = f"{status.stage} {status.step}/{status.num_steps}" if status.stage else ""
    yield Text(visible(f"{run.name}  {status.state}  {at}".rstrip()), style="bold")
    if status.message:
        yield Text(visible(status.message[:2000]))
    yield from _results(run)
    if run.funnel:
        yield _funnel(run.funnel)
    if run.waiting:
        yield Text(run.waiting)
    for one in run.findings:
        yield Text(visible(f"{one.rule}: {one.told}"), style="yellow")
    yield _stored(run)
    for problem in run.problems:
        yield Text(visible(problem.told), style="red")
    for note in run.notes:
        yield Text(visible(note))


def _results(run: RunSummary) -> Iterator[RenderableType]:
    """Yield what was measured: the gain, and each evaluation."""
    if run.gain is not None:
        yield Text(f"gain in pass@1: {points(run.gain)}")
    if run.evaluations:
        table = Table(title="Measured", title_justify="left")
        for name in ("evaluation", "result", "interval"):
            table.add_column(name, overflow="fold")
        for name, found in run.evaluations:
            interval = f"{found.low:.1%} to {found.high:.1%}"
            table.add_row(Text(visible(name)), f"{found.value:.1%}", interval)
        yield table


def points(found: Interval) -> str:
    """Return a difference of shares in points, with its interval."""
    return f"{100 * found.value:+.1f} points ({100 * found.low:+.1f} to {100 * found.high:+.1f})"


def _funnel(stages: list[FunnelStage]) -> Table:
    table = Table(title="Samples", title_justify="left")
    table.add_column("became of them", overflow="fold")
    table.add_column("groups", justify="right")
    table.add_column("samples", justify="right")
    table.add_column("share")
    asked = stages[0].samples
    for one in stages:
        share = one.share(asked)
        shown = "" if share is None else f"{share:6.1%} {'█' * round(_BAR * min(1.0, share))}"
        name = Text(one.name if one.kind == "kept" else f"  {one.name}")
        numbers = ("" if number is None else f"{number:,}" for number in (one.groups, one.samples))
        table.add_row(name, *numbers, Text(shown, style="red" if one.kind == "lost" else "green"))
    return table


def _stored(run: RunSummary) -> Text:
    told = f"stored: {run.stored.num_samples:,} samples in {run.stored.num_groups:,} groups"
    if run.outcomes:
        told += "; " + ", ".join(f"{name} {number:,}" for name, number in run.outcomes.items())
    if run.discarded:
        some = ", ".join(f"{name} {number:,}" for name, number in run.discarded.items())
        told += f"; of discarded groups: {some}"
    return Text(visible(told))


def run_json(run: RunSummary) -> dict[str, Any]:
    """Return a run as JSON for programs."""
    found = asdict(run)
    found["status"] = run.status.model_dump()
    found["evaluations"] = {name: asdict(interval) for name, interval in run.evaluations}
    return found
