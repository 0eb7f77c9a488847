"""An evaluation from the command line: its policies, its progress and its files."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from assay_reward.or_debug.episode.replay_pool import ReplayPool
from assay_reward.or_debug.evaluate.baselines import BASELINES, baseline
from assay_reward.or_debug.evaluate.chat_server import ChatPolicy, ChatServer
from assay_reward.or_debug.evaluate.evaluation import (
    EpisodeRecord,
    EvaluationPlan,
    digest_of,
    evaluate,
    read_tasks,
)
from assay_reward.or_debug.evaluate.evaluation_file import (
    EPISODES,
    EVALUATION,
    AskedOptions,
    CellTask,
    EvaluationFile,
)
from assay_reward.or_debug.evaluate.policy import EpisodePolicy, RemotePolicy
from assay_reward.or_debug.evaluate.report import markdown
from assay_reward.or_debug.evaluate.summary import OVERALL, EvaluationSummary, summarise
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import RetryBudget, Timeouts
from assay_shared.errors import ConfigError, Conflict
from assay_shared.settings.environment import ServiceSettings, read_settings
from assay_shared.settings.run_file import provenance
from assay_shared.telemetry.context import WorkPurpose, purpose_scope
from assay_shared.types import Priority, Role, SamplingParams, Task

_RETRY = RetryBudget(attempts=20, total_s=45.0, absent_s=10.0)


@dataclass(frozen=True)
class EvaluationRun:
    """Options of a run. `policy` is a baseline's name or an address.

    An address that ends with /v1 is of a server of the OpenAI form, any other one of Assay's
    inference service. `model` is one of the server's; not needed if it has only one.
    """

    data: Path
    policy: str
    output: Path
    role: Role | None = Role.TEST
    max_per_cell: int | None = None
    baselines: bool = True
    seed: int = 0
    processes: int = 1
    model: str | None = None
    #: The environment variable with the server's key.
    key_variable: str = "OPENAI_API_KEY"
    #: Seconds for each request to a server of the OpenAI form, and how often it is asked again.
    request_timeout: float = 300.0
    retry: RetryBudget = _RETRY
    sampling: SamplingParams = field(default_factory=SamplingParams)
    plan: EvaluationPlan = field(default_factory=EvaluationPlan)


def run(asked: EvaluationRun, console: Console) -> EvaluationSummary:
    """Play, summarise, and write `evaluation.json`, `episodes.jsonl`, `report.md` and figures.

    Raises:
        ConfigError: no policy has this name.
        Conflict: the folder has an evaluation with results.
        DatasetError: there are no tasks to play.
    """
    if not _is_address(asked.policy) and asked.policy not in BASELINES:
        raise ConfigError(
            f"{asked.policy!r} is neither an http address nor a baseline",
            field="policy",
            hint=f"baselines: {', '.join(sorted(BASELINES))}",
        )
    if asked.model is not None and not _is_chat_server(asked.policy):
        raise ConfigError(
            "only an address that ends with /v1 has models to choose from", field="model"
        )
    if _has_results(asked.output / EVALUATION):
        raise Conflict(
            f"{asked.output} has an evaluation", field="output", hint="choose another folder"
        )
    tasks = read_tasks(asked.data, asked.role, asked.max_per_cell)
    asked.output.mkdir(parents=True, exist_ok=True)
    name, records = asyncio.run(_play(asked, tasks, console))
    evaluation = summarise(name, records)
    _write(asked, tasks, evaluation, records)
    _tell_failed(records, console)
    return evaluation


def _has_results(path: Path) -> bool:
    """Return False if there is no such file, or no episode of its policy has a result."""
    if not path.exists():
        return False
    try:
        found = EvaluationFile.model_validate_json(path.read_bytes()).evaluation
    except ValidationError:
        return True  # it is not known what would be lost
    overall = found.of(found.policy, OVERALL)
    return overall is None or overall.num_failed < overall.num_episodes


def _tell_failed(records: list[EpisodeRecord], console: Console) -> None:
    failures = [one.failure for one in records if one.failure is not None]
    if failures:
        last = f"{failures[-1].service}: {failures[-1].message}"
        told = f"{len(failures)} of {len(records)} episodes have no result; the last: {last}"
        console.print(told, markup=False, highlight=False)


def _is_address(policy: str) -> bool:
    return policy.startswith(("http://", "https://"))


def _is_chat_server(policy: str) -> bool:
    return _is_address(policy) and policy.rstrip("/").endswith("/v1")


async def _play(
    asked: EvaluationRun, tasks: list[Task], console: Console
) -> tuple[str, list[EpisodeRecord]]:
    """Return the policy's name, and the episodes of all policies."""
    players = ReplayPool(asked.processes)
    names = [name for name in BASELINES if asked.baselines and name != asked.policy]
    try:
        async with _policy(asked) as policy:
            if policy.name in names:
                raise ConfigError(
                    f"the model is named {policy.name!r}, as a baseline is",
                    field="policy",
                    hint="serve the model by another name, or add --no-baselines",
                )
            policies = [policy, *(baseline(name, asked.seed) for name in names)]
            if _is_chat_server(asked.policy):
                limit = f"a request to the server has {asked.request_timeout:g} s at most"
                console.print(limit, style="dim", highlight=False)
            return policy.name, [
                record
                for one in policies
                for record in await _shown(asked, tasks, one, players, console)
            ]
    finally:
        players.close()


@asynccontextmanager
async def _policy(asked: EvaluationRun) -> AsyncIterator[EpisodePolicy]:
    if not _is_address(asked.policy):
        yield baseline(asked.policy, asked.seed)
        return
    if _is_chat_server(asked.policy):
        token = os.environ.get(asked.key_variable) or None
        limits = Timeouts(read_s=asked.request_timeout, total_s=asked.request_timeout)
        async with ChatServer(
            asked.policy, token=token, timeouts=limits, retry=asked.retry
        ) as server:
            model = asked.model or await server.only_model()
            yield ChatPolicy(model, server, model, asked.sampling)
        return
    settings = read_settings(ServiceSettings)
    token = settings.token_of("inference")
    with purpose_scope(WorkPurpose(Priority.EVALUATION)):
        async with InferenceClient(asked.policy, token=token) as client:
            yield RemotePolicy(asked.policy, client, asked.sampling)


async def _shown(
    asked: EvaluationRun,
    tasks: list[Task],
    policy: EpisodePolicy,
    players: ReplayPool,
    console: Console,
) -> list[EpisodeRecord]:
    """Return the episodes of a policy, with a progress line meanwhile."""
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    num_failed = 0
    with Progress(*columns, console=console) as progress:
        line = progress.add_task(policy.name, total=len(tasks) * asked.plan.samples, failed=0)

        def on_episode(record: EpisodeRecord) -> None:
            nonlocal num_failed
            num_failed += record.failure is not None
            progress.update(line, advance=1, failed=num_failed)

        return await evaluate(tasks, policy, players, asked.plan, on_episode)


def _write(
    asked: EvaluationRun,
    tasks: list[Task],
    evaluation: EvaluationSummary,
    records: list[EpisodeRecord],
) -> None:
    from assay_reward.or_debug.evaluate.figures import draw

    lines = (record.model_dump_json() + "\n" for record in records)
    (asked.output / EPISODES).write_text("".join(lines))
    EvaluationFile(
        evaluation=evaluation,
        asked=AskedOptions(
            data=str(asked.data),
            policy=asked.policy,
            tasks=digest_of(tasks, asked.plan.max_turns),
            role=asked.role,
            max_per_cell=asked.max_per_cell,
            samples=asked.plan.samples,
            max_turns=asked.plan.max_turns,
            seed=asked.seed,
            sampling=asked.sampling,
        ),
        policies=tuple(evaluation.policies),
        tasks=tuple(CellTask.of(task) for task in tasks),
        provenance=provenance(),
    ).write(asked.output)
    (asked.output / "report.md").write_text(markdown(evaluation))
    draw(evaluation, asked.output)
