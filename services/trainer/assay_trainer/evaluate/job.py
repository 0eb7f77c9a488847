"""An evaluation as the command asks for it: policies, sets, services, and their progress."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from assay_shared.errors import InvalidInput
from assay_shared.runs.run_folder import write_json
from assay_shared.runs.run_lock import held
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.settings.environment import ServiceSettings
from assay_shared.weights.checkpoint import file_digest
from assay_trainer.evaluate.answers import sources
from assay_trainer.evaluate.answers.sources import Source
from assay_trainer.evaluate.answers.submit import submit_problem
from assay_trainer.evaluate.evaluation import EvaluationOrder, evaluate
from assay_trainer.evaluate.playing.set_play import SetProgress
from assay_trainer.evaluate.policy.checkpoints import servable_folder
from assay_trainer.evaluate.policy.places import PolicyPlace, find_policies
from assay_trainer.evaluate.policy.services import check_rubrics, own_services, with_reward
from assay_trainer.evaluate.policy.serving import ServeBy, served
from assay_trainer.evaluate.reporting.report import headline, percent, tasks_counted
from assay_trainer.evaluate.sets import (
    OpenSet,
    check_names,
    check_server_reads,
    check_sets,
    open_sets,
)
from assay_trainer.evaluation.metrics.set_metrics import SetMetrics, StratumMetrics
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy
from assay_trainer.evaluation.records.folder import RECORD
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind

#: Different reasons of samples without a score that are shown.
_MOST_FAILURES_TOLD = 3
_MAX_FAILED = 32
#: The results of a run's checkpoints.
_STEPS = "steps.json"


@dataclass(frozen=True)
class EvaluationJob:
    """What the command asks for. Exactly one of `policy`, `server` and `answers` is given."""

    sets: Sequence[str]
    output: Path
    protocol: Protocol
    policy: str | None = None
    steps: str | None = None
    server: str | None = None
    model: str | None = None
    key_variable: str = "OPENAI_API_KEY"
    answers: Path | None = None
    #: The server whose /submit judges programs, in place of the tasks' rubrics.
    submit: str | None = None
    serve: ServeBy = ServeBy.AUTO
    limit: int | None = None
    limit_seed: int = 0
    allow_train: bool = False
    concurrency: int = 64
    #: Seconds for each request to the server.
    request_timeout: float = 300.0
    #: Null: 32, and first requests that all fail alike end the command too.
    max_failed: int | None = None
    qa_per_outcome: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        given = [one for one in (self.policy, self.server, self.answers) if one is not None]
        if len(given) != 1:
            raise InvalidInput("give exactly one of POLICY, --server and --answers")
        if self.model is not None and self.server is None:
            raise InvalidInput("it goes with --server", field="--model")
        if self.submit is not None and self.protocol.kind is ProtocolKind.REPAIR:
            raise InvalidInput("feedback comes from the reward service", field="--submit")
        if self.steps is not None and self.policy is None:
            raise InvalidInput("it goes with a run's folder", field="--steps")


def run_job(job: EvaluationJob, settings: ServiceSettings, console: Console) -> bool:
    """Evaluate, show the results, and return True if every sample has a score.

    Raises:
        AssayError: an option cannot be used, or something is down; stored samples stay.
    """
    sets = open_sets(
        job.sets,
        settings.data,
        limit=job.limit,
        limit_seed=job.limit_seed,
        allow_train=job.allow_train,
    )
    check_sets(sets, job.protocol)
    check_names(job.qa_per_outcome or {}, sets)
    if job.server is not None:
        check_server_reads(sets, job.protocol)
    policies = find_policies(job.policy, job.steps) if job.policy is not None else []
    make_own_folder(job.output)
    with held(job.output), ExitStack() as stack:
        if job.submit is not None:
            for task in (task for one in sets for task in one.tasks):
                submit_problem(task)
        elif job.protocol.kind is not ProtocolKind.LIKELIHOOD:
            own = stack.enter_context(own_services())
            settings, started = with_reward(own, settings)
            check_rubrics({"task.rubric": [task for one in sets for task in one.tasks]}, settings)
            if started:
                console.print(f"[dim]started for this command: {', '.join(started)}[/]")
        if not policies:
            return _shown(_one(job, sets, settings, console), console)
        if job.steps is None:
            (place,) = policies
            return _shown(_policy(job, place, job.output, sets, settings, console), console)
        return _walk(job, policies, sets, settings, console)


def make_own_folder(output: Path) -> None:
    """Make the folder of an evaluation, or of those of a run's checkpoints.

    Raises:
        InvalidInput: it is a file, or has other things in it.
    """
    if output.exists() and not output.is_dir():
        raise InvalidInput(f"{output} is a file", field="--output", hint="name a new folder")
    output.mkdir(parents=True, exist_ok=True)
    found = {one.name: one for one in output.iterdir() if not one.name.startswith(".")}
    if RECORD in found or _STEPS in found:
        return
    if others := [name for name, one in found.items() if not (one / RECORD).is_file()]:
        raise InvalidInput(
            f"{output} has {min(others)}, and is not an evaluation",
            field="--output",
            hint="name a new or an empty folder, or that of an evaluation to resume",
        )


def _one(
    job: EvaluationJob, sets: Sequence[OpenSet], settings: ServiceSettings, console: Console
) -> dict[str, SetMetrics]:
    """Evaluate a server's model, or stored answers."""
    if job.answers is not None:
        policy = EvaluatedPolicy(
            kind="answers", name=str(job.answers), digest=file_digest(job.answers)
        )
        source, num_unused = sources.of_file(job.answers, sets, job.protocol)
        if num_unused:
            console.print(
                f"{num_unused} answers of {job.answers} are to no task of these sets: left out",
                markup=False,
                highlight=False,
            )
        return _run(job, policy, job.output, sets, _ready(source), settings, console)
    assert job.server is not None
    name = f"{job.server} {job.model}" if job.model else job.server
    policy = EvaluatedPolicy(kind="server", name=name)
    opening = sources.of_server(
        job.server, job.model, job.key_variable, job.protocol, job.request_timeout
    )
    console.print(f"[dim]a request to the server has {job.request_timeout:g} s at most[/]")
    return _run(job, policy, job.output, sets, opening, settings, console)


@asynccontextmanager
async def _ready(source: Source) -> AsyncIterator[Source]:
    yield source


def _policy(
    job: EvaluationJob,
    place: PolicyPlace,
    output: Path,
    sets: Sequence[OpenSet],
    settings: ServiceSettings,
    console: Console,
) -> dict[str, SetMetrics]:
    """Evaluate the policy of a folder, once it is served."""
    with TemporaryFolder("assay-policy-") as scratch, ExitStack() as stack:
        with console.status(f"loading {place.name}"):
            folder = servable_folder(place, scratch)
            policy = place.facts(folder)
            serving = served(folder, str(policy.digest), job.serve, settings)
            settings, version = stack.enter_context(serving)
        opening = sources.of_service(settings, version, job.protocol)
        return _run(job, policy, output, sets, opening, settings, console)


def _walk(
    job: EvaluationJob,
    policies: Sequence[PolicyPlace],
    sets: Sequence[OpenSet],
    settings: ServiceSettings,
    console: Console,
) -> bool:
    """Evaluate checkpoints one after another, each into a folder of its name; write steps.json."""
    rows: list[dict[str, Any]] = []
    is_whole = True
    for place in policies:
        console.print(f"[bold]{place.label}[/]")
        found = _policy(job, place, job.output / place.label, sets, settings, console)
        is_whole = _shown(found, console) and is_whole
        numbers = {name: headline(one.overall) for name, one in found.items()}
        rows.append(
            {
                "label": place.label,
                "stage": place.stage,
                "step": place.step,
                "folder": place.label,
                "sets": {
                    name: None if one is None else one.model_dump() for name, one in numbers.items()
                },
            }
        )
        write_json(job.output / _STEPS, rows)
    return is_whole


def _run(
    job: EvaluationJob,
    policy: EvaluatedPolicy,
    output: Path,
    sets: Sequence[OpenSet],
    opening: AbstractAsyncContextManager[Source],
    settings: ServiceSettings,
    console: Console,
) -> dict[str, SetMetrics]:
    """Evaluate with a bar for each set."""
    order = EvaluationOrder(
        policy=policy,
        protocol=job.protocol,
        sets=sets,
        output=output,
        concurrency=job.concurrency,
        max_failed=job.max_failed or _MAX_FAILED,
        ends_alike=job.max_failed is None,
        qa_per_outcome=job.qa_per_outcome,
        submit=job.submit,
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bars:
        named = {
            one.name: bars.add_task(one.name, total=len(one.tasks), told="", start=False)
            for one in sets
        }

        told_failures: set[str] = set()

        def show(name: str, progress: SetProgress) -> None:
            bars.start_task(named[name])
            why = progress.last_failure
            if why and why not in told_failures and len(told_failures) < _MOST_FAILURES_TOLD:
                told_failures.add(why)
                bars.console.print(f"{name}: no score: {why}", markup=False, highlight=False)
            failed = f", {progress.num_failed} without a score" if progress.num_failed else ""
            told = f"{progress.num_samples} samples{failed}"
            bars.update(named[name], completed=progress.num_done, told=told)

        return asyncio.run(evaluate(order, opening, settings, show))


def _tasks(found: StratumMetrics) -> str:
    counted, lost = tasks_counted(found), found.num_failed
    some = f"{counted} tasks"
    if counted < found.num_tasks:
        some = f"{counted} scored tasks ({found.num_tasks} in all)"
    return some + (f", {lost} samples without a score" if lost else "")


def _shown(found: Mapping[str, SetMetrics], console: Console) -> bool:
    """Print a line for each set; return True if every sample has a score."""
    for name, one in found.items():
        console.print(
            f"{name}: {percent(headline(one.overall))} of {_tasks(one.overall)}",
            highlight=False,
            markup=False,
        )
    return all(one.overall.num_failed == 0 for one in found.values())
