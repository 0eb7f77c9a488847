"""The state of a pipeline as tables, for the terminal and for reports."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from assay_shared.text.markdown import visible
from assay_trainer.pipelines.gating.overruling import Overruled, still_stopping
from assay_trainer.pipelines.gating.stopping import stopping_gates
from assay_trainer.pipelines.ledger import Forecast, rate
from assay_trainer.pipelines.runner import Pipeline, PlannedStage
from assay_trainer.pipelines.stage_folder import StageRecord

_HOUR_S = 3600.0
Rows = list[tuple[str, ...]]
STAGE_COLUMNS = ("stage", "kind", "state", "hours", "GPU hours", "tokens", "judge tokens", "money")

EXPECTED_COLUMNS = ("to do", "least h", "money", "expected h", "money", "most h", "money", "known")


def stage_rows(pipeline: Pipeline) -> Rows:
    """Return a row of the columns for each stage, and one for all of them."""
    states = _states(pipeline)
    rows = [_row(one, states[name]) for name, one in pipeline.stages.items()]
    done = [one.record.costs for one in pipeline.stages.values() if one.record is not None]
    total = (
        "all", "", f"{len(done)} of {len(rows)}",
        amount(sum(one.seconds for one in done) / _HOUR_S),
        amount(sum(one.gpu_hours for one in done)),
        f"{sum(one.tokens for one in done):.0f}",
        f"{sum(one.judge_tokens for one in done):.0f}",
        amount(sum(one.money for one in done)),
    )  # fmt: skip
    return [*rows, total]


def amount(value: float) -> str:
    """Return hours or money in a table: seconds are not 0.00 hours."""
    return f"{value:.2f}" if value >= 1 else f"{value:.2g}"


def expected_rows(pipeline: Pipeline) -> Rows:
    """Return what each stage that is not done is expected to take and cost, and the sums."""
    rows: Rows = []
    sums = [0.0] * 6
    unknown = False
    for one in pipeline.stages.values():
        if one.record is not None:
            continue
        told, price = one.expected, rate(one.stage, pipeline.config)
        if told.hours is None:
            unknown = True
            rows.append((one.name, *("?" for _ in sums), told.source))
            continue
        hours = _hours(told)
        found = [value for hour in hours for value in (hour, hour * price)]
        sums = [have + new for have, new in zip(sums, found, strict=True)]
        rows.append((one.name, *(f"{value:.2f}" for value in found), told.source))
    source = "without those that are not known" if unknown else ""
    rows.append(("all", *(f"{one:.2f}" for one in sums), source))
    return rows


def print_state(pipeline: Pipeline, console: Console) -> None:
    """Print the stages with their state, and what is expected of the rest."""
    console.print(_table(STAGE_COLUMNS, stage_rows(pipeline)))
    console.print()
    if any(one.record is None for one in pipeline.stages.values()):
        console.print(_table(EXPECTED_COLUMNS, expected_rows(pipeline)))
        console.print()


def as_values(pipeline: Pipeline) -> dict[str, object]:
    """Return the state as JSON values."""
    states = _states(pipeline)
    return {
        "name": pipeline.config.name,
        "spent": pipeline.spent(),
        "stages": [
            {
                "name": one.name,
                "kind": one.stage.kind,
                "folder": str(one.folder.output),
                "inputs": one.folder.inputs,
                "state": states[one.name],
                "expected_hours": one.expected.hours,
                "expected_money": one.expected.money,
                "record": None if one.record is None else one.record.model_dump(mode="json"),
            }
            for one in pipeline.stages.values()
        ],
        "overruled": [one.model_dump(mode="json") for one in pipeline.overruled_now()],
    }


def _row(planned: PlannedStage, state: str) -> tuple[str, ...]:
    head = (planned.name, planned.stage.kind, state)
    if planned.record is None:
        return (*head, amount(planned.folder.seconds() / _HOUR_S), "", "", "", "")
    costs = planned.record.costs
    return (
        *head, amount(costs.seconds / _HOUR_S), amount(costs.gpu_hours), f"{costs.tokens:.0f}",
        f"{costs.judge_tokens:.0f}", amount(costs.money),
    )  # fmt: skip


def _states(pipeline: Pipeline) -> dict[str, str]:
    """Return the state of each stage in words, by its name."""
    left_out, latest = pipeline.left_out(), pipeline.latest_events()
    records = [one.record for one in pipeline.stages.values() if one.record is not None]
    is_stopped = any(stopping_gates(one.gates) for one in records)
    overruled = pipeline.overrules() if is_stopped else []
    found = {}
    for name, one in pipeline.stages.items():
        record = one.record or left_out.get(name)
        if record is not None:
            found[name] = _ended(one, record, overruled)
        else:
            found[name] = _not_ended(one, latest.get(name, ("", ""))[0])
    return found


def _ended(planned: PlannedStage, record: StageRecord, overruled: Sequence[Overruled]) -> str:
    verdicts = [gate.verdict for gate in record.gates]
    worst = next((one for one in ("FAIL", "INCONCLUSIVE", "PASS") if one in verdicts), "")
    reason = f": {record.reason}" if record.reason else ""
    stopping = stopping_gates(record.gates)
    left = still_stopping(stopping, planned.folder, overruled)
    told = ", overruled" if len(left) < len(stopping) else ""
    return f"{record.state}{reason} {worst}{told}".strip()


def _not_ended(planned: PlannedStage, last_event: str) -> str:
    attempts = planned.folder.attempts()
    code = attempts[-1].exit_code if attempts else None
    # A stop and a used up budget end a command with an exit code too.
    if code and last_event == "stage_failed":
        return f"failed: exit code {code}"
    return "begun" if attempts else "to do"


def _hours(told: Forecast) -> tuple[float, float, float]:
    assert told.hours is not None
    return told.minimum_hours or 0.0, told.hours, told.maximum_hours or told.hours


def _table(columns: tuple[str, ...], rows: Rows) -> Table:
    shown = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        shown.add_column(column, justify="left" if number < 3 else "right")
    for row in rows:
        shown.add_row(*(visible(cell) for cell in row))
    return shown
