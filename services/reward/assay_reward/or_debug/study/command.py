"""The command `assay or-debug report`."""

from pathlib import Path

import typer


def report(
    file: Path = typer.Argument(help="A study: policies, their evaluations and runs, goals."),
    output: Path = typer.Option(..., help="Folder for study.md, study.json and the figures."),
    overrides: list[str] | None = typer.Argument(None, metavar="[KEY=VALUE]...", help="Changes."),
) -> None:
    """Compare evaluated policies with the start and trivial policies, and decide goals."""
    from rich.console import Console
    from rich.table import Table

    from assay_reward.or_debug.evaluate.report import shown
    from assay_reward.or_debug.study.loading import load_study
    from assay_reward.or_debug.study.study_file import StudyFile
    from assay_reward.or_debug.study.study_report import summary_of, write_study
    from assay_shared.settings.run_file import load_config

    study = load_study(load_config(StudyFile, file, tuple(overrides or ())))
    goals = write_study(study, output)
    console = Console()
    if goals:
        table = Table("goal", "policy", "found", "verdict")
        for one in goals:
            found = shown(one.found, True) if one.found else "no value"
            table.add_row(one.goal, one.policy, found, one.verdict)
        console.print(table)
        console.print(f"goals: {summary_of(goals)}", highlight=False)
    console.print(f"the whole report: {output / 'study.md'}", highlight=False, soft_wrap=True)
