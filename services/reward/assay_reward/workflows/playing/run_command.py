"""The commands `assay workflow run`, `tasks` and `trace`."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from assay_reward.workflows.execution.budgets import RunBudgets
    from assay_reward.workflows.execution.run import WorkflowRun
    from assay_reward.workflows.playing.reading import ReadWorkflow

_MAX_PROBLEM_BYTES = 2**20


def run(
    file: Annotated[Path, typer.Argument(help="The workflow, in either form.")],
    problem: Annotated[str, typer.Option(help="The problem; @FILE reads it from a file.")],
    executor: Annotated[Path, typer.Option(help="The models of the executor.")] = Path(
        "configs/executor.yaml"
    ),
    trace: Annotated[
        Path | None, typer.Option(help="Write the run here: .html as a page, else as JSON.")
    ] = None,
    repair: Annotated[bool, typer.Option(help="Repair plain slips before the run.")] = True,
    seed: Annotated[int, typer.Option(help="The same seed sends the same requests.")] = 0,
) -> None:
    """Run a workflow on a problem; its Python steps run in the sandbox service."""
    from assay_reward.workflows.execution.budgets import RunBudgets
    from assay_reward.workflows.execution.run import RunEnding

    read = _read(file, repair)
    for line in read.repairs:
        print(f"repaired: {line}")
    if read.tree is None:
        raise typer.Exit(_refused(read.problems))
    budgets = RunBudgets()
    found = asyncio.run(_run(read, _text(problem), executor, budgets, seed))
    if trace is not None:
        _write(trace, found, read.source)
    _show(found)
    if found.status is not RunEnding.ANSWERED:
        raise typer.Exit(1)


def tasks(
    file: Annotated[Path, typer.Argument(help="Tasks, one a line (JSONL).")],
    output: Annotated[Path, typer.Option(help="A new file for the tasks of workflows.")],
    max_turns: Annotated[int, typer.Option(min=1, max=64, help="Turns of an episode.")] = 1,
    rubric: Annotated[str, typer.Option(help="The rubric of workflows.")] = "workflow",
    shown: Annotated[
        Path | None,
        typer.Option(help="A workflow, or a folder of them: the tasks' `gold`, in turn."),
    ] = None,
) -> None:
    """Turn tasks into tasks of workflows: the policy writes a workflow for each problem."""
    from itertools import cycle

    from assay_reward.workflows.playing.rubric_names import RubricNames
    from assay_reward.workflows.playing.tasks import (
        read_tasks,
        refuse_twice,
        shown_workflows,
        to_workflow_task,
        write_tasks,
    )

    if output.exists():
        raise typer.BadParameter(f"{output} exists; name a new file", param_hint="--output")
    names = RubricNames()
    names.check_workflows(rubric)
    given = list(read_tasks(file))
    refuse_twice([one.id for one in given], "id")
    for one in given:
        names.check_answers(one.rubric, one.id)
    golds = cycle([None] if shown is None else shown_workflows(shown))
    made = [
        to_workflow_task(one, max_turns, rubric, gold)
        for one, gold in zip(given, golds, strict=False)
    ]
    write_tasks(made, output)
    print(f"{len(made)} tasks in {output}")


def trace(
    file: Annotated[Path, typer.Argument(help="A training's rollouts.jsonl.")],
    output: Annotated[Path, typer.Option(help="The page to write.")],
    number: Annotated[int, typer.Option(min=1, max=500, help="Runs, the last ones.")] = 20,
) -> None:
    """Draw the last workflow runs of a training, each with its time line, on one page."""
    from assay_reward.workflows.execution.picture import runs_page
    from assay_reward.workflows.playing.stored_runs import stored_runs

    found = stored_runs(file, number)
    if not found:
        print(f"{file} has no run of a workflow")
        raise typer.Exit(1)
    output.write_text(runs_page(found))
    print(f"{len(found)} runs in {output}")


def _read(file: Path, repair: bool) -> "ReadWorkflow":
    from assay_reward.workflows.playing.reading import ReadWorkflow, read_here

    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}") from None
    found: ReadWorkflow = read_here(text, repair)
    return found


def _text(problem: str) -> str:
    if not problem.startswith("@"):
        return problem
    file = Path(problem[1:])
    if not file.is_file() or file.stat().st_size > _MAX_PROBLEM_BYTES:
        raise typer.BadParameter(
            f"{file} is not a file of at most {_MAX_PROBLEM_BYTES} bytes", param_hint="--problem"
        )
    return file.read_text(encoding="utf-8-sig")


async def _run(
    read: "ReadWorkflow", problem: str, config: Path, budgets: "RunBudgets", seed: int
) -> "WorkflowRun":
    from prometheus_client import CollectorRegistry

    from assay_reward.executor.config import ExecutorConfig
    from assay_reward.executor.executor import make_executor
    from assay_reward.settings import RewardSettings
    from assay_reward.workflows.execution.model_sessions import SessionExecutor
    from assay_reward.workflows.execution.run import play_workflow
    from assay_reward.workflows.operators.support.public_problem import PublicProblem
    from assay_shared.clients import SandboxClient
    from assay_shared.settings.environment import read_settings
    from assay_shared.settings.run_file import load_config

    settings = read_settings(RewardSettings)
    models = make_executor(load_config(ExecutorConfig, config), None, CollectorRegistry())
    assert read.tree is not None
    async with models.opened(), SandboxClient.from_settings(settings) as sandbox:
        executor = SessionExecutor.begin(models, budgets)
        return await play_workflow(
            read.tree, PublicProblem(problem), executor, sandbox, budgets, seed=seed
        )


def _write(path: Path, found: "WorkflowRun", source: str) -> None:
    from assay_reward.workflows.execution.picture import runs_page

    is_page = path.suffix.lower() in (".html", ".htm")
    page = [("Workflow run", found, source)]
    path.write_text(runs_page(page) if is_page else found.model_dump_json(indent=2))
    print(f"trace: {path}")


def _show(found: "WorkflowRun") -> None:
    cost = found.cost
    print(
        f"{found.status} on {found.executor}: {cost.calls} calls, {cost.tokens} tokens, "
        f"{cost.programs} programs, {cost.seconds:.2f} s"
    )
    if found.fault is not None:
        print(f"the workflow was stopped: {found.fault.message}")
    if found.failure is not None:
        print(f"failed, without an answer: {found.failure.message}")
    if found.fallback is not None:
        print(f"fallback on {found.fallback.executor}, not counted: {found.fallback.answer}")
    if found.answer is not None:
        print(found.answer)


def _refused(problems: tuple[str, ...]) -> int:
    for line in problems:
        print(line)
    return 2
