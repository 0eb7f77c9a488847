"""The pipelines next to the runs, for the pages of the trainer service."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from assay_shared.errors import AssayError, InvalidInput, NotFound
from assay_shared.runs.run_folder import check_run_name
from assay_shared.runs.run_lock import owner_of
from assay_trainer.browser.facts.pipeline_facts import PipelineFacts, PipelineHead, StageFacts
from assay_trainer.browser.reading.lines import stamp_of
from assay_trainer.pipelines.reporting.standing import standing
from assay_trainer.pipelines.reporting.state import EXPECTED_COLUMNS, expected_rows
from assay_trainer.pipelines.reporting.tables import ReportTable, all_tables
from assay_trainer.pipelines.reporting.writing import lead_of
from assay_trainer.pipelines.runner import Pipeline
from assay_trainer.pipelines.stored_pipeline import STORED, read_stored

#: Files that change with each change of a pipeline, apart from what a running stage writes.
_STAMPED = (STORED, "events.jsonl", "overruled.jsonl", "report.json")
_MOST_KEPT = 64
#: Pipelines whose state is read for the list.
_MOST_READ = 200
_STAGES = "Stages and costs"
_FORECAST_NOTE = (
    "Of each stage that is not done: by its last run with other inputs, else by the file."
)
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class _Report:
    """The parts of a page that take long to make, kept while no file changes."""

    lead: tuple[str, ...]
    tables: tuple[ReportTable, ...]
    spent: float | None
    problems: tuple[str, ...]


class PipelineFolders:
    """Reads the pipelines in the folders of a folder. Threads may share it."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], _Report] = OrderedDict()

    def is_empty(self) -> bool:
        """Return True if there is no pipeline."""
        return next(self._runs.glob(f"*/{STORED}"), None) is None

    def heads(self) -> list[PipelineHead]:
        """Return all pipelines, the last changed first; the state of old ones is not read."""
        found = [
            ((stamp_of(file.parent / "events.jsonl") or stamp_of(file) or (0, 0, 0))[2], file)
            for file in self._runs.glob(f"*/{STORED}")
        ]
        heads = []
        for number, (changed, file) in enumerate(sorted(found, reverse=True)):
            name, changed_s = file.parent.name, changed / 1e9
            if number >= _MOST_READ:
                heads.append(PipelineHead(name, changed=changed_s))
                continue
            try:
                heads.append(self.facts(name).head)
            except InvalidInput as error:
                why = f"{error.message}: {error.hint}"
                heads.append(PipelineHead(name, why_no_link=why, changed=changed_s))
            except AssayError as error:
                heads.append(
                    PipelineHead(name, state="unreadable", changed=changed_s, problem=str(error))
                )
        return heads

    def facts(self, name: str) -> PipelineFacts:
        """Return a pipeline as it was last run; damaged files of stages are named.

        Raises:
            InvalidInput: no folder of runs may have this name.
            NotFound: there is no such pipeline.
            AssayError: its pipeline.json cannot be read.
        """
        folder = self._folder(name)
        pipeline = read_stored(folder).recorded()
        try:
            owner = owner_of(folder)
        except OSError:
            owner = None
        stages = standing(pipeline, is_running=owner is not None)
        report = self._report(pipeline)
        num_done = sum(one.state in ("done", "skipped") for one in stages)
        changed = stamp_of(folder / "events.jsonl") or stamp_of(folder / STORED) or (0, 0, 0)
        head = PipelineHead(
            name=name,
            state="running" if owner is not None else _state(stages),
            at=f"{num_done} of {len(stages)}",
            spent=report.spent,
            changed=changed[2] / 1e9,
        )
        return PipelineFacts(
            head=head,
            owner="" if owner is None else str(owner),
            lead=report.lead,
            stages=tuple(stages),
            forecast=_forecast(pipeline),
            tables=report.tables,
            problems=(*pipeline.problems.values(), *report.problems),
        )

    def run_folder(self, name: str, stage: str) -> Path:
        """Return the folder of the run that a stage trained.

        Raises:
            NotFound: there is no such run.
            AssayError: the pipeline cannot be read.
        """
        pipeline = read_stored(self._folder(name)).recorded()
        planned = pipeline.stages.get(stage)
        if planned is None or not (planned.folder.output / "config.json").is_file():
            raise NotFound(f"pipeline {name} has no run of a stage {stage!r:.200}")
        return planned.folder.output

    def _folder(self, name: str) -> Path:
        check_run_name(name)
        if not (self._runs / name / STORED).is_file():
            raise NotFound(f"there is no pipeline {name!r}")
        return self._runs / name

    def _report(self, pipeline: Pipeline) -> _Report:
        key = (pipeline.folder, *(stamp_of(pipeline.folder / one) for one in _STAMPED))
        with self._lock:
            if key not in self._kept:
                self._kept[key] = _made_report(pipeline)
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]


def _made_report(pipeline: Pipeline) -> _Report:
    problems: list[str] = []

    def made(what: str, make: Callable[[], _Made], otherwise: _Made) -> _Made:
        try:
            return make()
        except (AssayError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problems.append(f"{what}: a stage's results cannot be read: {error}"[:1000])
            return otherwise

    none: list[ReportTable] = []
    unknown: tuple[str, ...] = ()
    tables = made("tables", lambda: all_tables(pipeline), none)
    lead = made("summary", lambda: tuple(lead_of(pipeline))[1:], unknown)
    spent = made("money spent", lambda: float(pipeline.spent()), None)
    shown = tuple(one for one in tables if one.title != _STAGES)
    return _Report(lead, shown, spent, tuple(problems))


def _state(stages: Sequence[StageFacts]) -> str:
    """Return the state of a pipeline that no process runs."""
    states = {one.state for one in stages}
    if states <= {"done", "skipped"} and not _is_stopped(stages):
        return "finished"
    for state in ("unreadable", "failed"):
        if state in states:
            return state
    if _is_stopped(stages):
        return "stopped by a gate"
    return "stopped" if states & {"stopped", "done"} else "to do"


def _is_stopped(stages: Sequence[StageFacts]) -> bool:
    """Return True if a gate stops the pipeline."""
    return any(one.state == "done" and one.why and not one.is_overruled for one in stages)


def _forecast(pipeline: Pipeline) -> ReportTable | None:
    if all(one.record is not None for one in pipeline.stages.values()):
        return None
    return ReportTable("Forecast", EXPECTED_COLUMNS, expected_rows(pipeline), _FORECAST_NOTE)
