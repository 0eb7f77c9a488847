"""The command `assay workflow compare`."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from assay_reward.workflows.comparison.candidates import WorkflowCandidate
    from assay_reward.workflows.comparison.compare import PlayOptions
    from assay_reward.workflows.comparison.plan import WorkflowComparison
    from assay_reward.workflows.comparison.play_log import PlayLog
    from assay_shared.types import Task

TasksFile = Annotated[Path, typer.Argument(help="Tasks (JSONL), or a folder of tasks.jsonl.")]
Parallel = Annotated[int, typer.Option(min=1, max=256, help="Tasks played at once.")]
TimeoutS = Annotated[float, typer.Option(min=1, help="Seconds for all samples of a task.")]
RubricName = Annotated[str, typer.Option(help="The rubric of workflows.")]
MaxTasks = Annotated[int, typer.Option(min=1, max=100_000, help="Tasks, chosen by the seed.")]


def compare(
    file: TasksFile,
    output: Annotated[Path, typer.Option(help="A folder; an old one is resumed.")],
    learned: Annotated[
        list[str] | None,
        typer.Option(help="NAME=PATH of an evaluation, a run's folder, or a file; repeatable."),
    ] = None,
    searched: Annotated[
        list[str] | None,
        typer.Option(help="NAME=PATH of a folder of `assay workflow search`; repeatable."),
    ] = None,
    votes: Annotated[
        int, typer.Option(min=1, max=128, help="Direct answers to a task, for self-consistency.")
    ] = 16,
    samples: Annotated[int, typer.Option(min=1, max=64, help="Runs of each candidate.")] = 1,
    margin: Annotated[
        float, typer.Option(min=0, max=1, help="The difference has to exceed this.")
    ] = 0.0,
    max_tasks: MaxTasks = 100_000,
    parallel: Parallel = 8,
    timeout_s: TimeoutS = 900.0,
    traces: Annotated[int, typer.Option(min=0, max=50, help="Tasks whose runs are kept.")] = 5,
    rubric: RubricName = "workflow",
    seed: Annotated[int, typer.Option(help="Of the choice of tasks, and of the resampling.")] = 0,
) -> None:
    """Compare workflows with self-consistency at equal tokens, through the reward service."""
    from assay_reward.workflows.comparison.candidates import fixed_candidates, workflow_tasks
    from assay_reward.workflows.comparison.compare import PlayOptions
    from assay_reward.workflows.comparison.plan import WorkflowComparison
    from assay_reward.workflows.comparison.play_log import PlayLog
    from assay_reward.workflows.comparison.report import claims, losses, write_report
    from assay_reward.workflows.comparison.table import TableRules
    from assay_reward.workflows.playing.rubric_names import RubricNames

    RubricNames().check_workflows(rubric, is_known=False)
    tasks = workflow_tasks(file, rubric, max_tasks, seed)
    found = [*fixed_candidates(), *_searched(searched or [], tasks)]
    found += _learned(learned or [], tasks)
    plan = WorkflowComparison(tuple(tasks), tuple(found), votes, samples)
    plan.check()
    log = PlayLog(output / "samples.jsonl", plan.facts())
    asyncio.run(_play(plan, log, PlayOptions(parallel, timeout_s, traces)))
    rows = write_report(output, plan, log, TableRules(margin=margin, seed=seed))
    for line in claims(rows):
        print(line.replace("**", ""))
    for line in losses(log.samples):
        print(line)
    print(f"the table: {output / 'report.md'}, with runs: {output / 'report.html'}")


def _searched(given: list[str], tasks: "list[Task]") -> "list[WorkflowCandidate]":
    from assay_reward.workflows.comparison.searched import searched_candidate

    return [searched_candidate(*_named(one, "--searched"), tasks) for one in given]


def _learned(given: list[str], tasks: "list[Task]") -> "list[WorkflowCandidate]":
    from assay_reward.workflows.comparison.learned import learned_candidate
    from assay_reward.workflows.comparison.searched import LOG, refuse_seen

    found = []
    for one in given:
        name, path = _named(one, "--learned")
        # The best workflow of a search is a file next to the search's log.
        refuse_seen((path if path.is_dir() else path.parent) / LOG, tasks, "learned")
        found.append(learned_candidate(name, path))
    return found


def _named(given: str, option: str) -> tuple[str, Path]:
    name, sign, path = given.partition("=")
    if not sign or not name or not Path(path).exists():
        raise typer.BadParameter(
            f"{given!r} is not NAME=PATH of a file or folder that exists", param_hint=option
        )
    return name, Path(path)


async def _play(plan: "WorkflowComparison", log: "PlayLog", options: "PlayOptions") -> None:
    from rich.console import Console
    from rich.progress import Progress

    from assay_reward.workflows.comparison.compare import open_client, play_plan

    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("tasks", total=len(plan.tasks), completed=len(log.samples))
        async with open_client(options.timeout_s) as client:
            await play_plan(
                client, plan, log, options, lambda done: progress.update(bar, completed=done)
            )
