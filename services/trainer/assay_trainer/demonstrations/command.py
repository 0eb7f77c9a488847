"""`assay data instructions` and `rejection`. What they need is imported when they run."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from assay_trainer.data.governance.manifest import ImportManifest
    from assay_trainer.demonstrations.instructions.operation import InstructionsOrder


class InstructionsServe(StrEnum):
    """As `ServeBy`, without the imports of its module."""

    AUTO = "auto"
    SERVICE = "service"
    OWN = "own"


_SERVE = "The running inference service (service), an own engine (own), or what there is (auto)."


def instructions(
    file: Annotated[Path, typer.Argument(help="YAML file: see docs/sft_data.md.")],
    output: Annotated[Path, typer.Option(help="Folder to write, or to continue.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="As section.key=value.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="In place of the file's: a folder, RUN, or a hub's name.")
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="A folder or file of held-out tasks, as well as those of the file."),
    ] = None,
    serve: Annotated[InstructionsServe, typer.Option(help=_SERVE)] = InstructionsServe.AUTO,
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="Requests at once.")] = 32,
    max_failed: Annotated[
        int, typer.Option(min=1, help="Requests in a row without a reply that end the command.")
    ] = 32,
    skip_failed: Annotated[
        bool, typer.Option("--skip-failed", help="Leave out requests that still have no reply.")
    ] = False,
) -> None:
    """Make new instructions from seeds and a model, with answers that pass all checks.

    The same command continues where it was stopped. Where no reward service runs, reward, judge and
    sandbox are started for the command. Exit code 1: something is down.
    """
    from assay_shared.telemetry.logs import quiet_transformers, set_up_logging
    from assay_trainer.demonstrations.instructions.operation import InstructionsOrder
    from assay_trainer.evaluate.options import stop_at_sigterm

    set_up_logging("instructions", "ERROR")
    quiet_transformers()
    stop_at_sigterm()
    order = InstructionsOrder(
        file=file,
        output=output,
        overrides=tuple(overrides or ()),
        policy=policy,
        against=tuple(against or ()),
        serve=serve.value,
        concurrency=concurrency,
        max_failed=max_failed,
        skip_failed=skip_failed,
    )
    _tell_made(_made(order), output)


def _made(order: "InstructionsOrder") -> "ImportManifest":
    """Return the manifest of the folder; after a stop, say that it can be continued."""
    from rich.console import Console

    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.demonstrations.instructions.operation import make_instructions

    console = Console(stderr=True)
    try:
        return make_instructions(order, read_settings(ServiceSettings), console)
    except KeyboardInterrupt:
        console.print("stopped; the same command continues")
        raise


def _tell_made(manifest: "ImportManifest", output: Path) -> None:
    """Print what was made and what was left out, and the proof of the channel."""
    import json

    from assay_shared.text.markdown import visible

    roles = ", ".join(f"{number} for {role}" for role, number in manifest.roles.items())
    print(f"{manifest.count} rows in {output}: {roles}")
    made = manifest.made or {}
    found, wanted = made.get("num_new_instructions"), made.get("num_wanted")
    if found != wanted:
        asked = made.get("num_invention_requests")
        print(f"{found} of {wanted} new instructions after {asked} requests for some")
    for what, reasons in (made.get("left_out") or {}).items():  # type: ignore[union-attr]
        assert isinstance(reasons, dict)
        told = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
        print(visible(f"left out: {what}: {told}"))
    for one in manifest.left_out:
        print(visible(f"left out: row: {one.number} {one.kind}: {one.reason}"))
    print(f"channel: {json.dumps(made.get('channel'))}")
    print(f"to read: {output / 'sample.txt'}, {output / 'sample.html'}")
    print(f"digest {manifest.digest[:16]}")


def rejection(
    evaluations: Annotated[
        list[Path], typer.Argument(metavar="EVALUATION...", help="Folders of `assay evaluate`.")
    ],
    output: Annotated[Path, typer.Option(help="A new folder to write to.")],
    per_task: Annotated[int, typer.Option(min=1, max=1024, help="Most answers of a task.")] = 1,
    min_score: Annotated[
        float | None, typer.Option(help="Least score; by default, what the rubric accepts.")
    ] = None,
    validation: Annotated[
        str, typer.Option(help="Share of the rows that are held out: 2% or 0.02.")
    ] = "0",
    seed: Annotated[int, typer.Option(help="Seed of the held-out share.")] = 0,
) -> None:
    """Make demonstrations of the accepted answers of stored evaluations."""
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.curation.order import share_of
    from assay_trainer.demonstrations.rejection.operation import RejectionOrder, make_rejection

    order = RejectionOrder(
        evaluations=tuple(evaluations),
        output=output,
        per_task=per_task,
        min_score=min_score,
        validation_share=share_of(validation, "--validation"),
        seed=seed,
        data_folder=read_settings(ServiceSettings).data,
    )
    found = make_rejection(order)
    numbers = found.numbers
    print(
        f"{found.manifest.count} answers to {numbers['num_tasks_with_rows']} of "
        f"{numbers['num_scored_tasks']} tasks in {output}"
    )
    for title in ("solved_tasks", "left_out"):
        counts = numbers[title]
        assert isinstance(counts, dict)
        print(f"{title}: {', '.join(f'{name} {number}' for name, number in counts.items())}")
    for one in found.manifest.left_out:
        print(f"left out: {one.number} {one.kind}: {one.reason}")
