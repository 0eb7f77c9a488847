"""Runs side by side as text: paired results, last values of curves, settings that differ."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from assay_shared.text.markdown import visible
from assay_trainer.browser.facts.differing import DifferingSetting, differing_settings
from assay_trainer.browser.facts.evaluated import EvaluationReader, PairedEvaluations
from assay_trainer.browser.opening import OpenedRun
from assay_trainer.browser.pages.joint_curves import CurveAxis, JointChart, joint_charts
from assay_trainer.comparison.report.terminal import tables


@dataclass(frozen=True)
class ComparedRuns:
    """Two to five runs side by side."""

    names: list[str]
    states: list[str]
    paired: PairedEvaluations
    charts: list[JointChart]
    settings: list[DifferingSetting]


def compare_runs(opened: Sequence[OpenedRun]) -> ComparedRuns:
    """Return runs side by side, the first as the baseline."""
    for one in opened:
        one.events.update()
    folders = [one.folder for one in opened]
    return ComparedRuns(
        names=[one.name for one in opened],
        states=[one.status().state for one in opened],
        paired=EvaluationReader().of_runs(folders),
        charts=joint_charts([one.events for one in opened], CurveAxis.UPDATES),
        settings=differing_settings(folders),
    )


def compared_lines(found: ComparedRuns) -> Iterator[RenderableType]:
    """Yield the parts of a comparison for a terminal."""
    runs = [f"{name} ({state})" for name, state in zip(found.names, found.states, strict=True)]
    yield Text(visible(", ".join(runs)), style="bold")
    if found.paired.data is None:
        yield Text(visible(f"No comparison of results: {found.paired.why_none}"), style="yellow")
    else:
        for told in found.paired.data.different:
            yield Text(visible(f"Not measured the same way: {told}"), style="yellow")
        yield from tables(found.paired.data)
        for note in found.paired.data.notes:
            yield Text(visible(note))
    if found.charts:
        yield _last_values(found)
    if found.settings:
        yield _settings(found)
    else:
        yield Text("All settings are equal.")


def compared_json(found: ComparedRuns) -> dict[str, Any]:
    """Return a comparison as JSON for programs."""
    data = found.paired.data
    return {
        "runs": dict(zip(found.names, found.states, strict=True)),
        "results": None if data is None else data.model_dump(mode="json"),
        "why_no_results": found.paired.why_none,
        "last_values": {one.title: _values(found, one) for one in found.charts},
        "settings": [asdict(one) for one in found.settings],
    }


def _values(found: ComparedRuns, chart: JointChart) -> dict[str, str]:
    return {found.names[line.place]: line.last for line in chart.lines}


def _table(title: str, first: str, found: ComparedRuns) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first, overflow="fold")
    for name in found.names:
        table.add_column(Text(visible(name)), overflow="fold")
    return table


def _last_values(found: ComparedRuns) -> Table:
    table = _table("Curves, last values", "curve", found)
    for one in found.charts:
        values = _values(found, one)
        table.add_row(one.title, *(values.get(name, "") for name in found.names))
    return table


def _settings(found: ComparedRuns) -> Table:
    table = _table("Settings that differ", "setting", found)
    for one in found.settings:
        table.add_row(*(Text(visible(cell)) for cell in (one.name, *one.values)))
    return table
