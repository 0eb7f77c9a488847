"""`assay ablate`. It imports its needs when run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from assay_shared.settings.environment import ServiceSettings
    from assay_trainer.ablation.ablation_folder import AblationFolder
    from assay_trainer.ablation.running import AblationRun


def ablate(
    file: Path | None = typer.Argument(None, help="Ablation file (YAML)."),
    changes: list[str] | None = typer.Argument(
        None, metavar="[KEY=VALUE]...", help="Changes of the file, as section.key=value."
    ),
    folder: Path | None = typer.Option(None, help="Folder; RUNS/NAME-TIME without it."),
    resume: Path | None = typer.Option(None, help="Resume the ablation in this folder."),
    winner: Path | None = typer.Option(
        None, help="Print the winner of this folder, and write its winner.json again."
    ),
    lane: list[Path] = typer.Option(
        None, help="File of NAME=VALUE lines: services and cards for part of the runs."
    ),
    plan: bool = typer.Option(False, "--plan", help="Show arms, runs and changes; train nothing."),
    quiet: bool = typer.Option(False, help="Show nothing; events are in the folder."),
) -> None:
    """Train arms from one start, judge their gradients and results. The services must be up.

    What a kill interrupted is resumed with --resume. Exit code 1: the checks do not work, a goal
    was missed, or an arm has failed.
    """
    from rich.console import Console

    from assay_shared.errors import InvalidInput
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_shared.telemetry.logs import set_up_logging

    if [file, resume, winner].count(None) != 2:
        raise InvalidInput("give exactly one of an ablation file, --resume and --winner")
    if plan and file is None:
        raise InvalidInput("--plan goes with an ablation file")
    set_up_logging("ablate", "ERROR")
    console = Console(quiet=quiet)
    settings = read_settings(ServiceSettings)
    if winner is not None:
        _winner(winner, Console())
    elif file is not None and plan:
        from assay_trainer.ablation.plan_rules import read_checked
        from assay_trainer.ablation.plan_view import show_plan
        from assay_trainer.pipeline.before_start import check_place

        _lanes(lane, settings)
        if folder is not None:
            check_place(folder, settings)
        show_plan(read_checked(file, tuple(changes or ()), needs_files=False), Console())
    else:
        lanes = _lanes(lane, settings)
        opened = _begun(file, tuple(changes or ()), folder, settings) if file else _opened(resume)
        if not _run(opened, settings, lanes, console):
            raise typer.Exit(1)


def _begun(
    file: Path, changes: tuple[str, ...], folder: Path | None, settings: "ServiceSettings"
) -> "AblationFolder":
    """Return the folder of a new ablation, whose start and first arm could begin here."""
    from assay_shared.errors import Conflict
    from assay_trainer.ablation.ablation_folder import AblationFolder
    from assay_trainer.ablation.arms import arm_config, start_config
    from assay_trainer.ablation.field_names import named_as_in_file
    from assay_trainer.ablation.plan_rules import read_checked
    from assay_trainer.pipeline.before_start import check_place, check_start
    from assay_trainer.service.record import stamped_names

    plan = read_checked(file, changes)
    with named_as_in_file(plan):
        check_start(start_config(plan), settings, [])
        for arm in plan.arms:
            check_start(arm_config(plan, arm, plan.config.seeds[0], None), settings, [])
    check_place(folder or settings.runs / plan.config.name, settings)
    if folder is not None:
        return AblationFolder.create(folder, plan)
    for name in stamped_names(plan.config.name):
        try:
            return AblationFolder.create(settings.runs / name, plan)
        except Conflict:
            continue
    raise AssertionError("names do not end")


def _opened(resume: Path | None) -> "AblationFolder":
    from assay_trainer.ablation.ablation_folder import AblationFolder

    assert resume is not None
    return AblationFolder.open(resume)


def _lanes(files: list[Path] | None, settings: "ServiceSettings") -> list[dict[str, str]]:
    """Return the variables of each lane; without a file, one lane has those of the environment."""
    from assay_trainer.ablation.runs import check_lanes, read_lane

    found = [read_lane(one) for one in files or []] or [{}]
    check_lanes(found, settings.inference_url)
    return found


def _run(
    folder: "AblationFolder",
    settings: "ServiceSettings",
    lanes: list[dict[str, str]],
    console: "Console",
) -> bool:
    """Run an ablation to its report.

    Returns:
        True if its checks work, no goal is missed, and no arm has failed.
    """
    from assay_shared.runs.run_lock import held
    from assay_trainer.ablation.progress import AblationView
    from assay_trainer.ablation.report.making import make_report
    from assay_trainer.ablation.report.terminal import show_report
    from assay_trainer.ablation.running import AblationRun, run_ablation
    from assay_trainer.endings import ending
    from assay_trainer.stop import Stop

    stop = Stop()
    stop.listen()
    console.print(f"ablation: {folder.path}", highlight=False, soft_wrap=True)
    with held(folder.path) as owner, AblationView(console) as view:
        run = AblationRun(
            folder, folder.plan(), settings, lanes, stop, view.show, view.show_progress
        )
        with ending(folder.record, str(owner), view.show):
            trained = run_ablation(run)
            run.status("report")
            report = make_report(run, trained)
            _finished(run)
    show_report(report, console)
    console.print(f"report: {folder.path / 'report.html'}", highlight=False, soft_wrap=True)
    return report.succeeded and not run.failed


def _finished(run: "AblationRun") -> None:
    from assay_shared.runs.run_folder import RunStatus

    run.record("ablation_finished", report=str(run.folder.path / "report.html"))
    run.folder.record.write_status(RunStatus(state="finished", stage="report"))


def _winner(path: Path, console: "Console") -> None:
    from assay_trainer.ablation.ablation_folder import AblationFolder
    from assay_trainer.ablation.report.winner import winner_text

    folder = AblationFolder.open(path)
    tell: Callable[[str], None] = lambda text: console.print(  # noqa: E731
        text, highlight=False, markup=False, soft_wrap=True
    )
    tell(winner_text(folder))
