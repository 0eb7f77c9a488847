"""The command `assay workflow search`."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay_reward.workflows.comparison.command import (
    MaxTasks,
    Parallel,
    RubricName,
    TasksFile,
    TimeoutS,
)

if TYPE_CHECKING:
    from assay_reward.workflows.search.nodes import NodeRecord
    from assay_reward.workflows.search.search import SearchOptions
    from assay_shared.types import Task


def search(
    file: TasksFile,
    output: Annotated[Path, typer.Option(help="A folder; an old search is resumed.")],
    first: Annotated[
        Path | None, typer.Option(help="The first workflow; else a direct answer.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=10_000, help="Changed workflows.")] = 20,
    samples: Annotated[int, typer.Option(min=1, max=64, help="Runs on each task.")] = 2,
    finalists: Annotated[int, typer.Option(min=1, max=50, help="Best ones, tried again.")] = 3,
    confirm: Annotated[int, typer.Option(min=1, max=64, help="Their runs on each task.")] = 4,
    proposals: Annotated[
        float, typer.Option(min=0, max=1, help="Share of changes that the executor proposes.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed makes the same choices.")] = 0,
    max_tokens: Annotated[float, typer.Option(min=1, help="Tokens of the executor.")] = 1e7,
    max_money: Annotated[
        float, typer.Option(min=0, help="Money, in the unit of the executor's prices.")
    ] = float("inf"),
    max_seconds: Annotated[float, typer.Option(min=1, help="Seconds of this command.")] = 86400.0,
    max_tasks: MaxTasks = 100_000,
    parallel: Parallel = 8,
    timeout_s: TimeoutS = 900.0,
    rubric: RubricName = "workflow",
) -> None:
    """Search for a workflow by small changes, on tasks for training or validation."""
    from assay_reward.workflows.comparison.candidates import fixed_candidates, workflow_tasks
    from assay_reward.workflows.playing.rubric_names import RubricNames
    from assay_reward.workflows.search.search import SearchOptions

    RubricNames().check_workflows(rubric, is_known=False)
    tasks = workflow_tasks(file, rubric, max_tasks, seed)
    source = first.read_text(encoding="utf-8-sig") if first is not None else None
    if source is None:
        source = fixed_candidates()[0].sources(tasks[0], 1)[0] if tasks else ""
    options = SearchOptions(
        rounds=rounds,
        samples=samples,
        finalists=finalists,
        confirm=confirm,
        proposals=proposals,
        seed=seed,
        max_tokens=max_tokens,
        max_money=max_money,
        max_seconds=max_seconds,
        parallel=parallel,
        timeout_s=timeout_s,
    )
    asyncio.run(_search(tasks, source, options, output))


async def _search(tasks: "list[Task]", first: str, options: "SearchOptions", folder: Path) -> None:
    from assay_reward.workflows.comparison.compare import open_client
    from assay_reward.workflows.search.result import write_result
    from assay_reward.workflows.search.search import WorkflowSearch

    async with open_client(options.timeout_s) as client:
        found = WorkflowSearch(client, tasks, first, options, folder, _show)
        best = await found.run()
    write_result(found, best)
    print(f"{found.ended}; the best is workflow {best.number}: reward {best.reward:.3f}, ")
    print(f"accuracy {best.accuracy:.1%}, {best.tokens:.0f} tokens: {folder / 'best.txt'}")


def _show(record: "NodeRecord") -> None:
    reward = "no score" if record.reward is None else f"reward {record.reward:.3f}"
    accuracy = "" if record.accuracy is None else f", accuracy {record.accuracy:.1%}"
    print(f"{record.kind} {record.number}: {record.done}: {reward}{accuracy}", flush=True)
