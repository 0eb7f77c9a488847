"""A run in a terminal: its current work, and the policy's progress."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from assay_shared.runs.run_folder import Event
from assay_trainer import events
from assay_trainer.meters import METERS, is_active

_BARS = " ▁▂▃▄▅▆▇█"
_WIDTH = 60
#: Without a terminal: steps, and other units of progress, per printed line.
_STEPS_PER_LINE = 10
_UNITS_PER_LINE = 100

TITLES = {
    "download": "download, MB",
    "data": "make tasks",
    "leaks": "look for leaks",
    "validate": "prove rewards",
    "policy": "make policy",
    "sft": "SFT",
    "dpo": "DPO",
    "evaluate before": "measure before",
    "signal": "sample groups",
    "grpo": "GRPO",
    "evaluate after": "measure after",
    "report": "write report",
}


class RunView:
    """Shows events. In a terminal it redraws itself; elsewhere it prints lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description:<16}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._stages: dict[str, TaskID] = {}
        self._steps: list[events.StepEvent] = []
        #: The last step of each stage on given rows.
        self._given_rows: dict[str, events.GivenRowsStep] = {}
        self._preferences: dict[str, events.DPOMeasured] = {}
        self._evaluated: list[events.Evaluated] = []
        #: The last result of each set of a tier.
        self._tiers: dict[str, events.TierEvaluated] = {}
        self._ended_early: events.GRPOEndedEarly | None = None
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._render)
        self.end: events.RunEnded | None = None

    def __enter__(self) -> "RunView":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, event: Event) -> None:
        """Show an event."""
        content = events.content(event)
        self._take(content)
        if not self._console.is_terminal:
            line = _line(content)
            if line is not None:
                self._console.print(line, highlight=False)

    def _take(self, content: object) -> None:
        match content:
            case events.StageStarted():
                title = TITLES.get(content.stage, content.stage)
                total = content.num_steps or 1
                self._stages[content.stage] = self._bars.add_task(title, total=total)
            case events.StageFinished():
                self._finish_bar(self._stages[content.stage])
            case events.ProgressEvent():
                self._bars.update(self._stages[content.stage], completed=content.done)
            case events.StepEvent():
                self._steps.append(content)
                self._bars.update(self._stages["grpo"], completed=content.step)
            case events.GivenRowsStep() | events.DPOMeasured():
                self._take_given_rows(content)
            case events.Resumed() if content.stage == "grpo":
                self._steps = [step for step in self._steps if step.step <= content.step]
            case _:
                self._take_result(content)

    def _take_result(self, content: object) -> None:
        match content:
            case events.GRPOEndedEarly():
                self._ended_early = content
            case events.Evaluated():
                self._evaluated.append(content)
            case events.TierEvaluated():
                self._tiers[content.set] = content
            case events.RunEnded():
                self.end = content

    def _take_given_rows(self, content: events.GivenRowsStep | events.DPOMeasured) -> None:
        if isinstance(content, events.DPOMeasured):
            self._preferences[content.name] = content
            return
        stage = "sft" if isinstance(content, events.SFTStep) else "dpo"
        self._given_rows[stage] = content
        self._bars.update(self._stages[stage], completed=content.step)

    def _finish_bar(self, bar: TaskID) -> None:
        total = self._bars.tasks[self._bars.task_ids.index(bar)].total
        self._bars.update(bar, completed=total)
        self._bars.stop_task(bar)

    def _render(self) -> RenderableType:
        parts: list[RenderableType] = [self._bars]
        for stage, step in self._given_rows.items():
            parts.append(Text(f"{TITLES[stage]}: {_given_rows(step)}"))
        parts += [Text(_preferred(one)) for one in self._preferences.values()]
        parts += [Text(_tier(one)) for one in self._tiers.values()]
        if self._steps:
            parts.append(_steps_table(self._steps))
        if self._ended_early is not None:
            parts.append(Text(f"GRPO ended early: {self._ended_early.message}", style="yellow"))
        return Panel(Group(*parts), title="assay", border_style="dim")

    def summary(self) -> Table:
        """Return a table of the run's results."""
        table = Table(title="pass@1 on held-out tasks", title_justify="left")
        for column in ("measured", "pass@1", "95% interval"):
            table.add_column(column, justify="left" if column == "measured" else "right")
        for one in self._evaluated:
            at_1 = one.pass_at[1]
            table.add_row(
                f"{one.name} GRPO", f"{at_1.value:.1%}", f"{at_1.low:.1%} to {at_1.high:.1%}"
            )
        gain = self.end.gain if self.end else None
        if gain is not None:
            interval = f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}"
            table.add_row("difference, paired", f"{100 * gain.value:+.1f} points", interval)
        return table


def _steps_table(steps: Sequence[events.StepEvent]) -> Table:
    last = steps[-1]
    num_failures = sum(sum(step.failures.values()) for step in steps)
    table = Table.grid(padding=(0, 2))
    table.add_row("reward", _number(last.reward), _sparkline([s.reward for s in steps]))
    table.add_row("pass rate", _number(last.pass_rate), _sparkline([s.pass_rate for s in steps]))
    table.add_row(
        "groups/s", _number(last.groups_per_s), _sparkline([s.groups_per_s for s in steps])
    )
    table.add_row("tokens/s", f"{last.tokens_per_s:.0f}", f"MFU {_share(last.mfu)}")
    if last.memory_bytes is not None:
        table.add_row("GPU memory", f"{last.memory_bytes / 2**30:.1f}", "GiB, the most so far")
    table.add_row("staleness", _number(last.staleness_mean), f"weights version {last.version}")
    table.add_row("mismatch", _mismatch(last), "nats a token, inference and trainer, same weights")
    refused = Counter[str]()
    for step in steps:
        refused.update(step.refused)
    if refused:
        table.add_row("refused", str(refused.total()), _named(refused))
    table.add_row("failures", str(num_failures), "samples left out, none of them scored 0")
    if last.measures:
        table.add_row("noted", "", _noted(last.measures))
    if last.curriculum_stage is not None:
        table.add_row("stage", "", last.curriculum_stage)
    table.add_row("meters", "", _meters(last) or "all at rest")
    return table


def _line(content: object) -> str | None:
    """Return an event as a line of text; None for minor events."""
    match content:
        case events.StageStarted():
            return f"{TITLES.get(content.stage, content.stage)} ..."
        case events.ProgressEvent() if content.done % _UNITS_PER_LINE == 0:
            return f"  {content.done} done"
        case events.GivenRowsStep() | events.DPOMeasured():
            return _given_rows_line(content)
        case events.StepEvent() if content.step % _STEPS_PER_LINE == 0:
            return (
                f"  step {content.step}: reward {_number(content.reward)}, "
                f"pass rate {_number(content.pass_rate)}, "
                f"{content.groups_per_s:.1f} groups/s, "
                f"{content.tokens_per_s:.0f} tokens/s, MFU {_share(content.mfu)}, "
                f"staleness {_number(content.staleness_mean)}, "
                f"mismatch {_mismatch(content)}"
                + (f", refused {_named(content.refused)}" if content.refused else "")
                + (f", stage {content.curriculum_stage}" if content.curriculum_stage else "")
                + (f"; {meters}" if (meters := _meters(content)) else "")
            )
        case events.TaskSetAside():
            return f"  set aside, {content.set}: {content.task}: {content.reason}"
        case events.CheckpointRefused():
            return f"  checkpoint refused: {content.reason}"
        case events.Resumed():
            return f"  resumes after step {content.step}"
        case events.GRPOEndedEarly():
            return f"  ended early: {content.message}"
        case events.Evaluated():
            at_1 = content.pass_at[1]
            return f"  pass@1 {at_1.value:.1%} ({at_1.low:.1%} to {at_1.high:.1%})"
    return _rare_line(content)


def _rare_line(content: object) -> str | None:
    match content:
        case events.SignalChecked():
            return f"  {content.num_with_signal} of {content.num_groups} groups have signal"
        case events.TrackerDropped():
            return f"  {content.tracker} failed and is dropped: {content.message}"
        case events.TierEvaluated():
            return f"  {_tier(content)}"
        case events.SetOpened():
            return f"  test set {content.set} is opened: {content.num_tasks} tasks"
        case events.BestCheckpointUsed():
            told = f"{content.metric} of {content.set} {content.value:.1%}"
            return f"  best checkpoint: step {content.step}, {told}"
    return None


def _tier(one: events.TierEvaluated) -> str:
    at = one.stage if one.step is None else f"{one.stage} {one.step}"
    found = one.result
    shown = f"{found.value:.1%} ({found.low:.1%} to {found.high:.1%})" if found else "no score"
    return f"{one.set} at {at}: {shown}"


def _given_rows_line(content: events.GivenRowsStep | events.DPOMeasured) -> str | None:
    if isinstance(content, events.DPOMeasured):
        return f"  {_preferred(content)}"
    is_due = content.step % _UNITS_PER_LINE == 0
    return f"  step {content.step}: {_given_rows(content)}" if is_due else None


def _given_rows(step: events.GivenRowsStep) -> str:
    text = (
        f"loss {step.loss:.3f}, learning rate {step.learning_rate:.1e}, "
        f"gradient norm {step.grad_norm:.2f}"
    )
    if isinstance(step, events.SFTStep) and step.validation_loss is not None:
        text += f", validation loss {step.validation_loss:.3f}"
    if isinstance(step, events.DPOStep):
        text += f", margin {step.margin:.3f}, accuracy {step.accuracy:.0%}"
    return text


def _preferred(one: events.DPOMeasured) -> str:
    rate = one.win_rate
    return (
        f"{one.num_pairs} held-out pairs {one.name} DPO: margin {one.margin:.3f}, "
        f"win rate {rate.value:.1%} ({rate.low:.1%} to {rate.high:.1%})"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _mismatch(step: events.StepEvent) -> str:
    return "-" if step.mismatch is None else f"{step.mismatch.mean_abs_nats:.2g}"


def _meters(step: events.StepEvent) -> str:
    """Return the meters of the settings that act in the step, with their values."""
    values = [(meter, meter.value(step)) for meter in METERS]
    return ", ".join(f"{m.title} {m.shown(value)}" for m, value in values if is_active(m, value))


def _named(refused: Mapping[str, int]) -> str:
    return ", ".join(f"{reason.replace('_', ' ')}: {number}" for reason, number in refused.items())


def _noted(measures: Mapping[str, float]) -> str:
    """Return the numbers that verifiers noted of samples; zeros are left out."""
    return ", ".join(f"{name} {value:.3g}" for name, value in measures.items() if value)


def _sparkline(values: Sequence[float | None]) -> Text:
    known = [value for value in values[-_WIDTH:] if value is not None]
    top = max([*known, 1e-9])
    bars = (_BARS[round(value / top * (len(_BARS) - 1))] for value in known)
    return Text("".join(bars), style="cyan")
