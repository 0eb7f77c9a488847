"""From the command line to a pipeline's folder, its lock and its progress."""

import json
from pathlib import Path

from rich.console import Console

from assay_shared.errors import InvalidInput, NotFound
from assay_shared.runs.run_folder import write_json
from assay_shared.runs.run_lock import held
from assay_shared.settings.environment import ServiceSettings, read_settings
from assay_shared.settings.run_file import parse_config
from assay_trainer.pipelines.pipeline_config import PipelineConfig, load_pipeline
from assay_trainer.pipelines.pipeline_report import as_values, print_state, write_report
from assay_trainer.pipelines.runner import Pipeline, PipelineRunner
from assay_trainer.stop import Stop

_STORED = "pipeline.json"
#: The first stage, the last one, or single ones.
Selection = tuple[str | None, str | None, tuple[str, ...]]


def plan_pipeline(
    file: Path, overrides: tuple[str, ...], folder: Path | None, *, as_json: bool
) -> None:
    """Print the stages with their state and expected costs."""
    config = load_pipeline(file, overrides)
    found = Pipeline.open(_place(folder, config), file.resolve(), config)
    if as_json:
        Console().print_json(json.dumps(as_values(found), default=str))
        return
    print_state(found, Console())


def run_pipeline(
    file: Path, overrides: tuple[str, ...], folder: Path | None, selection: Selection
) -> None:
    """Run the selected stages and write the report.

    Raises:
        AssayError: a gate, a failed stage, the budget or a stop ended it.
    """
    config = load_pipeline(file, overrides)
    names = selected(list(config.stages), selection)
    place = _place(folder, config)
    found = Pipeline.open(place, file.resolve(), config)
    place.mkdir(parents=True, exist_ok=True)
    stop, console = Stop(), Console()
    with held(place):
        _store(place, file, config)
        stop.listen()
        with console.status("begins") as status:
            runner = PipelineRunner(
                found,
                stop,
                lambda name, line: status.update(f"{name}: {line[:100]}"),
            )
            try:
                runner.run(names)
            finally:
                report = write_report(found)
        print_state(found, console)
        console.print(f"report: {report}", soft_wrap=True, highlight=False)


def stored_pipeline(folder: Path) -> Pipeline:
    """Return the pipeline of a folder, as it was last run.

    Raises:
        NotFound: the folder has none.
    """
    try:
        stored = json.loads((folder / _STORED).read_bytes())
        config = parse_config(PipelineConfig, stored["config"], source=str(folder / _STORED))
        return Pipeline.open(folder, Path(stored["file"]), config)
    except FileNotFoundError:
        raise NotFound(f"{folder} is not the folder of a pipeline: it lacks {_STORED}") from None


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


def _store(place: Path, file: Path, config: PipelineConfig) -> None:
    write_json(
        place / _STORED, {"file": str(file.resolve()), "config": config.model_dump(mode="json")}
    )
