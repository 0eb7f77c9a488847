"""From the command line to a pipeline's folder, its lock and its progress."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from assay_shared.errors import AssayError, InvalidInput, NotFound
from assay_shared.runs.run_lock import held
from assay_shared.settings.environment import ServiceSettings, read_settings
from assay_trainer.pipelines.checks.stage_checks import check_stages
from assay_trainer.pipelines.diagnosis.failures import told_os_error
from assay_trainer.pipelines.levels.reproduction import (
    Reproduction,
    ReproductionRecord,
    stored_reproduction,
)
from assay_trainer.pipelines.pipeline_config import PipelineConfig, load_pipeline
from assay_trainer.pipelines.reporting.progress import shown_progress
from assay_trainer.pipelines.reporting.state import as_values, print_state
from assay_trainer.pipelines.reporting.writing import write_report
from assay_trainer.pipelines.runner import Pipeline, PipelineRunner, PlannedStage
from assay_trainer.pipelines.stored_pipeline import (
    check_same_pipeline,
    store_pipeline,
    stored_pipeline,
)
from assay_trainer.stop import Stop

#: The first stage, the last one, or single ones.
Selection = tuple[str | None, str | None, tuple[str, ...]]


@dataclass(frozen=True)
class PipelineOrder:
    """The order of a command line: a file, its changes, and the pipeline's folder."""

    file: Path
    further: tuple[Path, ...] = ()
    overrides: tuple[str, ...] = ()
    folder: Path | None = None

    def config(self) -> PipelineConfig:
        """Return the pipeline that the files describe."""
        return load_pipeline(self.file, self.overrides, self.further)


def plan_pipeline(order: PipelineOrder, *, as_json: bool) -> None:
    """Print the stages with their state and expected costs."""
    config = order.config()
    found = Pipeline.open(_place(order.folder, config), order.file.resolve(), config)
    check_same_pipeline(found)
    notes = check_stages(found, found.stages)
    if as_json:
        Console().print_json(json.dumps(as_values(found) | {"notes": notes}, default=str))
        return
    console = Console()
    print_state(found, console)
    _print_notes(notes, console)


def _print_notes(notes: list[str], console: Console) -> None:
    for note in notes:
        console.print(f"note: {note}", soft_wrap=True, highlight=False, markup=False)


def run_pipeline(order: PipelineOrder, selection: Selection) -> None:
    """Run the selected stages, reproduce those of levels, and write the report.

    Raises:
        AssayError: a gate, a failed stage, the budget or a stop ended it.
    """
    config = order.config()
    names = selected(list(config.stages), selection)
    place = _place(order.folder, config)
    found = Pipeline.open(place, order.file.resolve(), config)
    check_same_pipeline(found)
    stop, console = Stop(), Console()
    _print_notes(check_stages(found, names), console)
    with _paths_in_errors(place):
        place.mkdir(parents=True, exist_ok=True)
        _run_held(found, names, stop, console)


def _run_held(found: Pipeline, names: list[str], stop: Stop, console: Console) -> None:
    """Run stages in the pipeline's folder, which no other process may use meanwhile."""
    with held(found.folder):
        check_same_pipeline(found)  # another pipeline may have taken the folder meanwhile
        store_pipeline(found)
        stop.listen()
        with shown_progress(console) as show:
            try:
                PipelineRunner(found, stop, show).run(names)
                _reproduce(found, to_reproduce(found), stop, show)
            except BaseException:
                _report_an_end(found, console)
                raise
            report = write_report(found)
            _print_skipped(found, console)
        print_state(found, console)
        console.print(f"report: {report}", soft_wrap=True, highlight=False)


def _report_an_end(pipeline: Pipeline, console: Console) -> None:
    """Write the report of a run that ends by an error, which matters more than the report."""
    try:
        write_report(pipeline)
    except (OSError, AssayError) as error:
        why = str(error)
        if isinstance(error, OSError):
            why = told_os_error(error, pipeline.folder)[0]
        told = f"no report is written: {why}"
        console.print(told, soft_wrap=True, highlight=False, markup=False)
    _print_skipped(pipeline, console)


@contextmanager
def _paths_in_errors(place: Path) -> Iterator[None]:
    """Have errors of the system name a path and what to do."""
    try:
        yield
    except OSError as error:
        told, hint = told_os_error(error, place)
        raise AssayError(told, hint=hint) from error


def _print_skipped(pipeline: Pipeline, console: Console) -> None:
    for name, one in pipeline.stages.items():
        if one.record is not None and one.record.state == "skipped":
            told = f"skipped: {name}: {one.record.reason}"
            console.print(told, soft_wrap=True, highlight=False, markup=False)


def reproduce_stages(folder: Path, names: tuple[str, ...]) -> bool:
    """Do stages again from their folders, print the findings; return False if any differs.

    Without names, do all finished stages.

    Raises:
        NotFound: a name is not a stage that is done.
    """
    found, stop, console = stored_pipeline(folder), Stop(), Console()
    done = [name for name, one in found.stages.items() if _is_done(one)]
    for name in names:
        if name not in done:
            raise NotFound(f"no stage {name!r} is done; done are {', '.join(done) or 'none'}")
    with held(folder):
        stop.listen()
        with shown_progress(console) as show:
            results = _reproduce(found, list(names) or done, stop, show)
        write_report(found)
    for name, one in results.items():
        console.print(f"{name}: {one.verdict}: {one.reason}", soft_wrap=True, highlight=False)
    stop.check()
    return all(one.verdict != "FAIL" for one in results.values())


def to_reproduce(pipeline: Pipeline) -> list[str]:
    """Return the finished stages for levels to reproduce, without those already tried."""
    asked = {
        one.reproduce
        for conditions in pipeline.config.levels.values()
        for one in conditions
        if one.reproduce is not None
    }
    return [
        name
        for name, one in pipeline.stages.items()
        if name in asked and _is_done(one) and stored_reproduction(one.folder) is None
    ]


def _reproduce(
    pipeline: Pipeline, names: list[str], stop: Stop, show: Callable[[str, str], None]
) -> dict[str, ReproductionRecord]:
    found: dict[str, ReproductionRecord] = {}
    for name in names:
        if stop.asked:
            break
        one = pipeline.stages[name]
        again = Reproduction(pipeline.places, stop, partial(show, name))
        found[name] = again.check(one.stage, one.folder)
    return found


def _is_done(one: PlannedStage) -> bool:
    return one.record is not None and one.record.state == "done"


def selected(names: list[str], selection: Selection) -> list[str]:
    """Return the names of the selected stages, in their order.

    Raises:
        InvalidInput: a name is not a stage, or nothing is selected.
    """
    start, until, only = selection
    for field, one in (("--from", start), ("--until", until), *(("--only", o) for o in only)):
        if one is not None and one not in names:
            raise InvalidInput(
                f"there is no stage {one!r}; there are {', '.join(names)}", field=field
            )
    if only and (start or until):
        raise InvalidInput("give either --only, or --from and --until")
    if only:
        return [name for name in names if name in only]
    first = names.index(start) if start else 0
    last = names.index(until) if until else len(names) - 1
    if first > last:
        raise InvalidInput(f"{start} stands after {until}", field="--from")
    return names[first : last + 1]


def _place(folder: Path | None, config: PipelineConfig) -> Path:
    return (folder or read_settings(ServiceSettings).runs / config.name).resolve()
