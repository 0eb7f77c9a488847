"""Runs the stages of a pipeline in their order, each once for its inputs."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assay_shared.errors import AssayError, BudgetExceeded, Conflict, DatasetError, NotFound
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.runs.run_folder import RunFolder, append_line
from assay_trainer.pipelines.child import last_line, run_command
from assay_trainer.pipelines.diagnosis.failures import told_os_error, why_it_failed
from assay_trainer.pipelines.diagnosis.results import what_results_say
from assay_trainer.pipelines.gating.gates import decide
from assay_trainer.pipelines.gating.overruling import Overruled, still_stopping
from assay_trainer.pipelines.gating.stopping import gate_hint, gate_told, stopping_gates
from assay_trainer.pipelines.ledger import Forecast, costs_of, earlier_records, forecast, rate
from assay_trainer.pipelines.levels.levels import StageResult
from assay_trainer.pipelines.levels.outputs import check_unchanged, record_outputs
from assay_trainer.pipelines.levels.reproduction import stored_reproduction
from assay_trainer.pipelines.pipeline_config import PipelineConfig
from assay_trainer.pipelines.placeholders import SERVER
from assay_trainer.pipelines.serving import server_of
from assay_trainer.pipelines.smoke import smoke_commands, smoke_passed
from assay_trainer.pipelines.stage_command import StagePlaces, input_files, is_finished, prepare
from assay_trainer.pipelines.stage_folder import (
    CommandAttempt,
    GateResult,
    StageFolder,
    StageRecord,
    digest_of,
)
from assay_trainer.pipelines.stage_kinds import AnyStage, ReportStage
from assay_trainer.stop import Stop, Stopped

_HOUR_S = 3600.0
_OVERRULED = "overruled.jsonl"
#: What a stage may cost, and what its gates ask, changes no result.
_NO_INPUTS = {
    *("after", "gates", "expected_minutes", "gpus", "skip_when_short"),
    *("allow_no_change", "smoke_steps"),
}


class StageFailed(AssayError):
    """A stage's command has failed; the pipeline can be started again."""


class GateStopped(AssayError):
    """A gate does not let the pipeline continue."""


@dataclass
class PlannedStage:
    """A stage with its folder, and what is known of it."""

    name: str
    stage: AnyStage
    folder: StageFolder
    record: StageRecord | None
    expected: Forecast


@dataclass
class Pipeline:
    """A pipeline in its folder."""

    folder: Path
    file: Path
    config: PipelineConfig
    stages: dict[str, PlannedStage] = field(default_factory=dict)
    #: The stages whose files cannot be read, with the reasons; see `recorded`.
    problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, file: Path, config: PipelineConfig) -> "Pipeline":
        """Return the pipeline with the state of each stage.

        Raises:
            NotFound: a file that a stage names is missing.
        """
        found = cls(folder, file, config)
        folders: dict[str, StageFolder] = {}
        for name, stage in config.stages.items():
            places = StagePlaces(file.parent, folders, folder)
            needed = [folders[other].inputs for other in config.needs(name)]
            # Without defaults: a later version with more fields does not do all stages again.
            told = stage.model_dump(mode="json", exclude=_NO_INPUTS, exclude_defaults=True)
            inputs = digest_of([told, needed], input_files(stage, places))
            folders[name] = StageFolder(folder, name, inputs)
            found.stages[name] = found._planned(stage, folders[name])
        return found

    @classmethod
    def recorded(
        cls, folder: Path, file: Path, config: PipelineConfig, inputs: Mapping[str, str]
    ) -> "Pipeline":
        """Return the pipeline as it was last run, with these `inputs` of its stages.

        No input file is read. A stage with damaged files is as one that never began, and stands
        in `problems`.
        """
        found = cls(folder, file, config)
        for name, stage in config.stages.items():
            own = StageFolder(folder, name, inputs.get(name, ""))
            try:
                found.stages[name] = found._planned(stage, own)
            except (DatasetError, OSError) as error:
                found.problems[name] = str(error)
                unknown = Forecast(None, None, "unknown")
                found.stages[name] = PlannedStage(name, stage, own, None, unknown)
        return found

    def _planned(self, stage: AnyStage, own: StageFolder) -> "PlannedStage":
        expected = forecast(stage, self.config, earlier_records(self.folder, own.name))
        return PlannedStage(own.name, stage, own, own.record(), expected)

    @property
    def places(self) -> StagePlaces:
        folders = {name: one.folder for name, one in self.stages.items()}
        return StagePlaces(self.file.parent, folders, self.folder)

    def spent(self) -> float:
        """Return the money spent so far, on stages that are not done and on earlier inputs too."""
        total = 0.0
        for one in self.stages.values():
            records = earlier_records(self.folder, one.name)
            total += sum(record.costs.money for record in records)
            seconds = one.folder.seconds() if one.record is None else 0.0
            again = stored_reproduction(one.folder)
            seconds += 0.0 if again is None else again.seconds
            total += seconds / _HOUR_S * rate(one.stage, self.config)
        return total

    def money_left(self, stage: AnyStage) -> float | None:
        """Return what is left of the budget; None if nothing limits the stage."""
        if self.config.budget is None or rate(stage, self.config) == 0:
            return None
        return self.config.budget.money - self.spent()

    def too_dear(self, planned: PlannedStage) -> str:
        """Return why the budget does not allow a stage; empty if it does."""
        left, budget = self.money_left(planned.stage), self.config.budget
        expected = planned.expected.money or 0.0
        if left is None or budget is None or (left > 0 and expected <= left):
            return ""
        return (
            f"{planned.name} is expected to cost {expected:.2f}, and "
            f"{max(0.0, left):.2f} of {budget.money:.2f} is left"
        )

    def results(self) -> dict[str, StageResult]:
        """Return what conditions of levels see of each stage."""
        left_out = self.left_out()
        return {
            name: StageResult(one.stage, one.folder, one.record or left_out.get(name))
            for name, one in self.stages.items()
        }

    def latest_events(self) -> dict[str, tuple[str, str]]:
        """Return the kind of the newest event of each stage, and its reason if it was skipped."""
        found: dict[str, tuple[str, str]] = {}
        for event in RunFolder(self.folder).read_events():
            name = event.data.get("stage", event.data.get("name"))
            if isinstance(name, str):
                found[name] = event.kind, str(event.data.get("reason", ""))
        return found

    def left_out(self) -> dict[str, StageRecord]:
        """Return records of the stages that the last run skipped, and a run now would skip too."""
        latest, found = self.latest_events(), dict[str, StageRecord]()
        for name, one in self.stages.items():
            kind, reason = latest.get(name, ("", ""))
            if one.record is not None or kind != "stage_skipped":
                continue
            is_short = one.stage.skip_when_short and bool(self.too_dear(one))
            if is_short or any(other in found for other in self.config.needs(name)):
                found[name] = _skipped(one, reason)
        return found

    def overrules(self) -> list[Overruled]:
        """Return what a person has overruled, of earlier inputs and gates too."""
        file = self.folder / _OVERRULED
        return list(read_json_lines(file, Overruled.model_validate)) if file.exists() else []

    def overruled_now(self) -> list[Overruled]:
        """Return what is overruled of the gates as they stand, with their numbers."""
        gates = [
            (gate, one.folder)
            for one in self.stages.values()
            if one.record is not None
            for gate in stopping_gates(one.record.gates)
        ]
        return [line for line in self.overrules() if any(line.covers(*one) for one in gates)]

    def overrule(self, name: str, reason: str) -> list[GateResult]:
        """Let the pipeline continue after a stage's gates, record why, and return these gates.

        Raises:
            NotFound: there is no such stage, or no gate of it stops the pipeline.
        """
        found = self.stages.get(name)
        gates: list[GateResult] = []
        if found is not None and found.record is not None:
            gates = still_stopping(found.record.gates, found.folder, self.overrules())
        if found is None or not gates:
            raise NotFound(f"no gate of a stage {name!r} stops this pipeline")
        for gate in gates:
            line = Overruled.of(gate, found.folder, reason, time.time())
            append_line(self.folder / _OVERRULED, line.model_dump_json())
        return gates


class PipelineRunner:
    """Runs what is not done of the selected stages."""

    def __init__(
        self,
        pipeline: Pipeline,
        stop: Stop,
        on_line: Callable[[str, str], None],
    ) -> None:
        """Store the parts; `on_line` gets a stage's name and the last line of its log."""
        self._pipeline, self._stop, self._on_line = pipeline, stop, on_line
        self._log = RunFolder(pipeline.folder)

    def run(self, names: list[str]) -> None:
        """Run the stages of these names.

        Raises:
            GateStopped: a gate stops the pipeline; the message names what would decide or help.
            StageFailed: a command has failed.
            BudgetExceeded: the next stage would cost more than the budget has left.
            Stopped: a stop was requested.
        """
        for name in names:
            planned = self._pipeline.stages[name]
            try:
                self._run_stage(planned)
            except OSError as error:  # in most cases of a full disk
                told, hint = told_os_error(error, planned.folder.path)
                raise StageFailed(f"{name} could not be run: {told}", hint=hint) from error

    def _run_stage(self, planned: PlannedStage) -> None:
        if planned.record is None:
            planned.record = self._do(planned)
        else:
            planned.record = _decided_again(planned, planned.record)
        self._pass_gates(planned, planned.record)

    def _do(self, planned: PlannedStage) -> StageRecord:
        names = self._pipeline.config.needs(planned.name)
        needed = {name: self._pipeline.stages[name].record for name in names}
        for name, record in needed.items():
            is_left_out = record is not None and record.state == "skipped"
            if is_left_out and not isinstance(planned.stage, ReportStage):
                return self._skip(planned, f"{name} was left out")
        for name, record in needed.items():
            if record is None:
                raise Conflict(f"{planned.name} needs {name}, which is not done")
            if record.state == "done":
                check_unchanged(self._pipeline.stages[name].folder)
        left = self._pipeline.money_left(planned.stage)
        if too_dear := self._pipeline.too_dear(planned):
            if planned.stage.skip_when_short:
                return self._skip(planned, "the budget does not allow its expected cost")
            hint = "raise budget.money, or set skip_when_short for the stage"
            raise BudgetExceeded(too_dear, hint=hint)
        if not is_finished(planned.stage, planned.folder):
            self._run_commands(planned, left)
        return self._finish(planned)

    def _run_commands(self, planned: PlannedStage, left: float | None) -> None:
        """Run a stage's commands one after another; `left` is the money that they may cost."""
        stage, folder, places = planned.stage, planned.folder, self._pipeline.places
        ends = None
        if left is not None:
            price = rate(stage, self._pipeline.config)
            ends = time.monotonic() + left / price * _HOUR_S
        short = smoke_commands(stage, folder, places)
        for words in short:
            self._run_command(planned, words, ends)
        if short:
            smoke_passed(stage, folder)
        words = prepare(stage, folder, places)
        with server_of(stage, folder, places) as address:
            self._run_command(planned, [one.replace(SERVER, address) for one in words], ends)

    def _run_command(self, planned: PlannedStage, words: list[str], ends: float | None) -> None:
        folder = planned.folder
        folder.close_killed()
        attempt = CommandAttempt(started=time.time())
        folder.add_attempt(attempt)
        self._log.record("stage_started", stage=planned.name, words=[*words])
        code, is_late = run_command(
            words,
            folder.log,
            folder.running,
            self._stop,
            limit_s=None if ends is None else max(0.0, ends - time.monotonic()),
            on_line=lambda line: self._on_line(planned.name, line),
        )
        ended = attempt.model_copy(update={"ended": time.time(), "exit_code": code})
        folder.add_attempt(ended)
        if self._stop.asked:
            raise Stopped(f"stopped in {planned.name}", hint="the same command resumes there")
        if is_late:
            raise BudgetExceeded(
                f"{planned.name} used up the budget", hint="raise budget.money and start again"
            )
        if code != 0:
            self._log.record("stage_failed", stage=planned.name, exit_code=code)
            advice = "; ".join((*why_it_failed(folder, code), f"its output is in {folder.log}"))
            raise StageFailed(
                f"{planned.name} ended with exit code {code}: {last_line(folder.log)[:400]}",
                hint=f"{advice}; the same command tries it again",
            )

    def _finish(self, planned: PlannedStage) -> StageRecord:
        folder, stage = planned.folder, planned.stage
        record = StageRecord(
            name=planned.name,
            kind=stage.kind,
            inputs=folder.inputs,
            finished=time.time(),
            costs=costs_of(stage, folder, self._pipeline.config),
            gates=_gates(planned),
        )
        record_outputs(folder)
        folder.write(record)
        # The kind of the event stands in its place.
        self._log.record("stage_finished", **record.model_dump(mode="json", exclude={"kind"}))
        return record

    def _skip(self, planned: PlannedStage, reason: str) -> StageRecord:
        self._log.record("stage_skipped", stage=planned.name, reason=reason)
        return _skipped(planned, reason)  # not written: with a larger budget it is done

    def _pass_gates(self, planned: PlannedStage, record: StageRecord) -> None:
        stopping = still_stopping(record.gates, planned.folder, self._pipeline.overrules())
        if stopping:
            self._log.record("gate_stopped", stage=planned.name)
            said = what_results_say(planned.stage, planned.folder)
            # All of them, because one reason overrules all.
            told = "; ".join(gate_told(planned.name, one) for one in stopping)
            raise GateStopped(told, hint=gate_hint(stopping[0], said))


def _skipped(planned: PlannedStage, reason: str) -> StageRecord:
    return StageRecord(
        name=planned.name,
        kind=planned.stage.kind,
        inputs=planned.folder.inputs,
        state="skipped",
        reason=reason,
        finished=time.time(),
    )


def _decided_again(planned: PlannedStage, record: StageRecord) -> StageRecord:
    """Return the record with the verdicts of the gates that the file has now, and keep it."""
    if record.state == "skipped":
        return record
    gates = _gates(planned)
    if gates == record.gates:
        return record
    record = record.model_copy(update={"gates": gates})
    planned.folder.write(record)
    return record


def _gates(planned: PlannedStage) -> tuple[GateResult, ...]:
    return tuple(decide(planned.stage, planned.folder))
