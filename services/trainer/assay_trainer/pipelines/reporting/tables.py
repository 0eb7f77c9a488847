"""The tables of a pipeline's report: one content for the page, Markdown, plain text and JSON."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from assay_trainer.pipelines.diagnosis.results import what_results_say
from assay_trainer.pipelines.gating.gates import told_value
from assay_trainer.pipelines.gating.numbers import numbers_of
from assay_trainer.pipelines.gating.overruling import Overruled
from assay_trainer.pipelines.ledger import rate
from assay_trainer.pipelines.levels.levels import LevelResult, decide_levels
from assay_trainer.pipelines.levels.reproduction import stored_reproduction
from assay_trainer.pipelines.reporting.findings import (
    COMPARED,
    COMPARED_NOTE,
    REPAIRED,
    REPAIRED_NOTE,
    compared_rows,
    repaired_rows,
)
from assay_trainer.pipelines.reporting.state import STAGE_COLUMNS, Rows, amount, stage_rows
from assay_trainer.pipelines.runner import Pipeline, PlannedStage
from assay_trainer.pipelines.stage_kinds import MeasuringStage

_HOUR_S = 3600.0
_MINUTES = 60.0


@dataclass(frozen=True)
class ReportTable:
    """A table with its heading, and a sentence about its numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Rows
    note: str = ""

    def as_values(self) -> list[dict[str, str]]:
        """Return the rows as JSON values by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class MeasuredPoint:
    """The headline number of an evaluation: the share accepted at the first answer."""

    stage: str
    set: str
    value: float
    low: float | None
    high: float | None
    num_tasks: int
    num_failed: int


def all_tables(pipeline: Pipeline) -> list[ReportTable]:
    """Return the report's tables with rows."""
    done = [one for one in pipeline.stages.values() if _is_done(one)]
    compared = [row for one in done for row in compared_rows(one)]
    repaired = [row for one in done for row in repaired_rows(one)]
    found = [
        *_levels(decided_levels(pipeline)),
        ReportTable("Measured", _MEASURED, [_measured_row(one) for one in points(pipeline)], _OVER),
        ReportTable("Compared", COMPARED, compared, COMPARED_NOTE),
        ReportTable("Repaired", REPAIRED, repaired, REPAIRED_NOTE),
        ReportTable("Gates", _GATES, list(_gates(pipeline)), _GATES_NOTE),
        ReportTable("What the numbers say", ("stage", "advice"), list(_said(pipeline))),
        ReportTable("Overruled", _OVERRULED, _overruled(pipeline.overruled_now())),
        ReportTable("Overruled before", _OVERRULED, _overruled_before(pipeline), _BEFORE_NOTE),
        ReportTable("Stages and costs", STAGE_COLUMNS, stage_rows(pipeline)),
        ReportTable("Time and money of phases", _PHASES, _phases(pipeline), _PHASES_NOTE),
        ReportTable("Done again", ("stage", "verdict", "found"), list(_reproduced(pipeline))),
    ]
    return [one for one in found if one.rows]


def decided_levels(pipeline: Pipeline) -> list[LevelResult]:
    """Return the verdict of each level of the file."""
    return decide_levels(pipeline.config.levels, pipeline.results())


def points(pipeline: Pipeline) -> list[MeasuredPoint]:
    """Return the headline number of each finished evaluation, by stage and set."""
    found = []
    for one in pipeline.stages.values():
        if isinstance(one.stage, MeasuringStage) and _is_done(one):
            for name in one.stage.sets:
                overall = numbers_of(one.stage, one.folder, name)
                if overall.get("accepted_at_1") is not None:
                    found.append(_point(one.name, name, overall))
    return found


def _point(stage: str, name: str, overall: dict[str, Any]) -> MeasuredPoint:
    number = overall["accepted_at_1"]
    return MeasuredPoint(
        stage=stage,
        set=name,
        value=number["value"],
        low=number["low"],
        high=number["high"],
        num_tasks=overall["num_scored_tasks"],
        num_failed=overall.get("num_failed", 0),
    )


_MEASURED = ("stage", "set", "accepted@1", "95% interval", "tasks", "samples without a score")
_OVER = "Intervals are over tasks. A sample without a score is in no number."


def _measured_row(one: MeasuredPoint) -> tuple[str, ...]:
    low = "-inf" if one.low is None else f"{one.low:.1%}"
    high = "inf" if one.high is None else f"{one.high:.1%}"
    counts = (str(one.num_tasks), str(one.num_failed))
    return (one.stage, one.set, f"{one.value:.1%}", f"{low} to {high}", *counts)


_GATES = ("stage", "set", "number", "rule", "measured", "verdict", "what to do")
_GATES_NOTE = (
    "PASS: the whole interval keeps the bound. FAIL: the whole interval breaks it. Else "
    "INCONCLUSIVE. Checks that every stage has are among them."
)


def _gates(pipeline: Pipeline) -> Iterator[tuple[str, ...]]:
    for one in pipeline.stages.values():
        for gate in () if one.record is None else one.record.gates:
            decided = (told_value(gate), gate.verdict, gate.action)
            yield (one.name, gate.set, gate.metric, gate.bound, *decided)


def _said(pipeline: Pipeline) -> Iterator[tuple[str, ...]]:
    for one in pipeline.stages.values():
        if _is_done(one):
            yield from ((one.name, told) for told in what_results_say(one.stage, one.folder))


_OVERRULED = ("stage", "set", "number", "rule", "measured", "verdict", "reason")
_BEFORE_NOTE = "Of other inputs, gates or numbers than now: nothing continues by them."


def _overruled(found: Iterable[Overruled]) -> Rows:
    return [
        (one.stage, one.set, one.metric, one.bound, _measured(one), one.verdict or "", one.reason)
        for one in found
    ]


def _measured(one: Overruled) -> str:
    return "" if one.value is None else f"{one.value:.4g}"


def _overruled_before(pipeline: Pipeline) -> Rows:
    now = pipeline.overruled_now()
    return _overruled(one for one in pipeline.overrules() if one not in now)


_PHASES = (
    "stage", "minimum hours", "expected", "maximum", "measured",
    "minimum money", "expected money", "maximum money", "money spent",
)  # fmt: skip
_PHASES_NOTE = (
    "Minimum, expected and maximum are those of the file, and money is their hours times the "
    "price. The sums are of the stages that have them."
)


def _phases(pipeline: Pipeline) -> Rows:
    """Return stated and measured hours and money of each stage, and their sums."""
    rows: Rows = []
    sums = [0.0] * 8
    for one in pipeline.stages.values():
        values = _phase(pipeline, one)
        rows.append((one.name, *(_number(value) for value in values)))
        sums = [have + (value or 0.0) for have, value in zip(sums, values, strict=True)]
    return [*rows, ("all", *(_number(value) for value in sums))]


def _phase(pipeline: Pipeline, one: PlannedStage) -> list[float | None]:
    stated, price = one.stage.expected_minutes, rate(one.stage, pipeline.config)
    hours: list[float | None] = [None, None, None]
    if stated is not None:
        hours = [m / _MINUTES for m in (stated.minimum, stated.expected, stated.maximum)]
    money = [None if hour is None else hour * price for hour in hours]
    if not _is_done(one):
        return [*hours, None, *money, None]
    assert one.record is not None
    costs = one.record.costs
    return [*hours, costs.seconds / _HOUR_S, *money, costs.money]


def _number(value: float | None) -> str:
    return "" if value is None else amount(value)


def _reproduced(pipeline: Pipeline) -> Iterator[tuple[str, ...]]:
    for one in pipeline.stages.values():
        found = stored_reproduction(one.folder)
        if found is not None:
            yield (one.name, found.verdict, found.reason)


def _levels(levels: list[LevelResult]) -> Iterator[ReportTable]:
    columns = ("level", "verdict", "condition", "of it", "reason")
    rows: Rows = []
    for level in levels:
        told: tuple[str, str] = (level.level, level.verdict)
        for one in level.conditions:
            rows.append((*told, one.condition, one.verdict, one.reason))
            told = ("", "")
        if not level.conditions:
            rows.append((*told, "", "", "as the levels before it"))
    yield ReportTable("Levels of success", columns, rows, "A level includes those before it.")


def _is_done(one: PlannedStage) -> bool:
    return one.record is not None and one.record.state == "done"
