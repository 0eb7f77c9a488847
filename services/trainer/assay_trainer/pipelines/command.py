"""`assay pipeline`: stages from a base model to a policy that is handed over."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Run stages with gates, from a base model to a handed over policy.",
    no_args_is_help=True,
    add_completion=False,
)
_FILE = typer.Argument(help="Pipeline file (YAML).")
_CHANGES = typer.Argument(metavar="[KEY=VALUE]...", help="Overrides, as section.key=value.")
_PIPELINE = typer.Argument(metavar="FOLDER", help="The pipeline's folder.")
_WITH = typer.Option("--with", help="A file whose keys replace those of FILE; repeatable.")


@app.callback()
def pipeline() -> None:
    """Run stages with gates, from a base model to a handed over policy."""


@app.command()
def run(
    file: Annotated[Path, _FILE],
    overrides: Annotated[list[str] | None, _CHANGES] = None,
    further: Annotated[list[Path] | None, _WITH] = None,
    folder: Annotated[Path | None, typer.Option(help="Its folder; RUNS/NAME without it.")] = None,
    until: Annotated[str | None, typer.Option(help="The last stage to run.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="The first stage to run.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="A stage to run; repeatable.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show state and costs alone.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Run the stages that are not done; the same command resumes.

    A stage is done again if its inputs changed. Exit code 1: a gate, a failure or the budget stops.
    """
    from assay_shared.errors import InvalidInput
    from assay_trainer.pipelines.operation import PipelineOrder, plan_pipeline, run_pipeline

    if as_json and not plan:
        raise InvalidInput("--json goes with --plan")
    order = PipelineOrder(file, tuple(further or ()), tuple(overrides or ()), folder)
    if plan:
        plan_pipeline(order, as_json=as_json)
        return
    run_pipeline(order, (start, until, tuple(only or ())))


@app.command()
def show(folder: Annotated[Path, _PIPELINE]) -> None:
    """Show a pipeline's stages, verdicts and costs, and write its report again."""
    from rich.console import Console

    from assay_trainer.pipelines.reporting.state import print_state
    from assay_trainer.pipelines.reporting.writing import write_report
    from assay_trainer.pipelines.stored_pipeline import stored_pipeline

    found, console = stored_pipeline(folder), Console()
    print_state(found, console)
    console.print(f"report: {write_report(found)}", soft_wrap=True, highlight=False)


@app.command()
def report(
    folder: Annotated[Path, _PIPELINE],
    output: Annotated[Path, typer.Option(help="Folder for the report and the register.")],
) -> None:
    """Write the report of what is done so far to another folder: page, tables, register."""
    from assay_trainer.pipelines.reporting.writing import write_report
    from assay_trainer.pipelines.stored_pipeline import stored_pipeline

    print(f"report: {write_report(stored_pipeline(folder), output)}")


@app.command()
def reproduce(
    folder: Annotated[Path, _PIPELINE],
    stages: Annotated[list[str] | None, typer.Argument(help="Stages; all done ones.")] = None,
) -> None:
    """Do stages again from what is stored: files, numbers, scores. Exit code 1: one differs."""
    from assay_trainer.pipelines.operation import reproduce_stages

    if not reproduce_stages(folder, tuple(stages or ())):
        raise typer.Exit(1)


@app.command()
def overrule(
    folder: Annotated[Path, _PIPELINE],
    stage: Annotated[str, typer.Argument(help="The stage whose gate stops the pipeline.")],
    reason: Annotated[str, typer.Option(help="Why it continues all the same; it is kept.")],
) -> None:
    """Let a pipeline continue after a gate that stops it; the reason stays in its report."""
    from assay_shared.errors import InvalidInput
    from assay_trainer.pipelines.gating.stopping import gate_told
    from assay_trainer.pipelines.stored_pipeline import stored_pipeline

    if not reason.strip():
        raise InvalidInput("give a reason", field="--reason")
    for gate in stored_pipeline(folder).overrule(stage, reason.strip()):
        print(f"overruled: {gate_told(stage, gate)}")
    print("`assay pipeline run` continues")
