"""Commands to prove rewards before training. Each imports its needs when run."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from assay_shared.clients import RewardClient
    from assay_shared.types import Task

Result = TypeVar("Result")
OnScored = Callable[[int], None]

_DATASET = typer.Argument(help="humaneval, gsm8k, gsm8k:train, a JSONL file or an imported folder.")
_RUBRIC = typer.Option(None, help="Rubric; each task's own without it.")
_LIMIT = typer.Option(None, min=1, help="Check only this number of tasks, sampled at random.")
_NUM_GENERATED = 200
_WIDTH = 140


def validate(
    dataset: str = _DATASET,
    rubric: str | None = _RUBRIC,
    limit: int | None = _LIMIT,
    output: Path | None = typer.Option(None, help="Write exceptions and failures to this file."),
    max_bad_share: float = typer.Option(
        0.0, min=0, max=1, help="Exit with 1 if more of the tasks have an exception."
    ),
) -> None:
    """Check that gold answers get a rubric's highest reward, and no other answers do."""
    from assay_trainer.checks import rewards
    from assay_trainer.checks.tables import show_validation
    from assay_trainer.checks.wrong_answers import Corpus

    tasks = _open(dataset)
    chosen, corpus = _drawn(tasks, limit), Corpus(tasks)
    found = _with_progress(
        len(chosen),
        lambda client, tell: rewards.validate(chosen, corpus, client, rubric, tell),
    )
    if output is not None:
        found.write(output)
    show_validation(found, _console())
    if found.bad_share > max_bad_share:
        raise typer.Exit(1)


def audit(
    dataset: str = typer.Argument(help="As for assay validate; or the name of a rubric."),
    rubric: str | None = _RUBRIC,
    limit: int | None = _LIMIT,
) -> None:
    """Show what policies without skill would earn, next to the gold answers.

    With only a rubric's name, the command takes generated tasks of the rubric's kind.
    """
    from assay_trainer.checks import baselines as auditing
    from assay_trainer.checks.tables import audit_table

    tasks, own = _of_rubric(dataset) or (_open(dataset), None)
    chosen, name = _drawn(tasks, limit), rubric or own
    earned = _with_progress(
        len(chosen), lambda client, tell: auditing.audit(chosen, client, name, tell)
    )
    _console().print(audit_table(earned))


def _console() -> "Console":
    """Return a console wide enough for the tables, even without a terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


def _open(dataset: str) -> "list[Task]":
    """Return the tasks that can be sent; name the others: a run would set them aside."""
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.data.dataset import DatasetPurpose, named_source, open_dataset
    from assay_trainer.rollouts.set_aside import shown, unreadable

    folder = read_settings(ServiceSettings).data
    tasks = open_dataset(named_source(dataset), DatasetPurpose.EVALUATE, folder).tasks
    found = unreadable(tasks)
    for task, reason in found:
        _console().print(f"left out: {shown(task.id)}: {reason}", markup=False, highlight=False)
    left_out = {task.id for task, _ in found}
    return [task for task in tasks if task.id not in left_out]


def _of_rubric(name: str) -> "tuple[list[Task], str] | None":
    """Return generated tasks for a rubric of code, maths or questions; None for others."""
    from assay_shared.types import Role
    from assay_trainer.data.synthetic import generate

    domains = {"code": "code", "math": "arithmetic", "qa": "lookup"}
    domain = domains.get(name.partition(".")[0])
    if domain is None or Path(name).exists():
        return None
    generated = generate(_NUM_GENERATED, 0, {domain: 1.0}, Role.TRAIN)
    return [one.task for one in generated], name


def _drawn(tasks: "list[Task]", limit: int | None) -> "list[Task]":
    return tasks if limit is None else random.Random(0).sample(tasks, min(limit, len(tasks)))


def _with_progress(
    num_tasks: int, work: "Callable[[RewardClient, OnScored], Awaitable[Result]]"
) -> Result:
    """Return the result of `work` with the running reward service; show a progress bar of tasks."""
    import asyncio

    from rich.progress import Progress

    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.checks.rewards import open_prover

    async def run() -> Result:
        with Progress(transient=True) as progress:
            bar = progress.add_task("scoring", total=num_tasks)
            async with open_prover(read_settings(ServiceSettings)) as client:
                return await work(client, lambda done: progress.advance(bar, done))

    return asyncio.run(run())
