"""An evaluation from the command line: its policies, its progress and its files."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

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
    AskedOptions,
    CellTask,
    EvaluationFile,
)
from assay_reward.or_debug.evaluate.policy import EpisodePolicy, RemotePolicy
from assay_reward.or_debug.evaluate.report import markdown
from assay_reward.or_debug.evaluate.summary import EvaluationSummary, summarise
from assay_reward.or_debug.evaluate.unfinished import (
    UNFINISHED,
    BegunEvaluation,
    UnfinishedEvaluation,
    begin,
)
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import RetryBudget, Timeouts
from assay_shared.errors import ConfigError
from assay_shared.runs.run_folder import write_atomically
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
    """Play what is missing, and write `evaluation.json`, `episodes.jsonl`, `report.md`, figures.

    Raises:
        ConfigError: no policy has this name.
        Conflict: the folder has an evaluation with other options, or a complete one.
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
    tasks = read_tasks(asked.data, asked.role, asked.max_per_cell)
    begun, records = asyncio.run(_play(asked, tasks, console))
    evaluation = summarise(begun.policies[0], records)
    _write(asked.output, begun.asked, tasks, evaluation, records)
    (asked.output / UNFINISHED).unlink(missing_ok=True)
    _tell_failed(records, console)
    return evaluation


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
) -> tuple[BegunEvaluation, list[EpisodeRecord]]:
    """Return the options, and the episodes of all policies."""
    players = ReplayPool(asked.processes)
    names = [name for name in BASELINES if asked.baselines and name != asked.policy]
    try:
        async with _policy(asked) as (policy, weights):
            if policy.name in names:
                raise ConfigError(
                    f"the model is named {policy.name!r}, as a baseline is",
                    field="policy",
                    hint="serve the model by another name, or add --no-baselines",
                )
            policies = [policy, *(baseline(name, asked.seed) for name in names)]
            begun = BegunEvaluation(
                policies=(policy.name, *sorted(names)), asked=_options(asked, tasks, weights)
            )
            num_episodes = len(policies) * len(tasks) * asked.plan.samples
            unfinished = begin(asked.output, begun, num_episodes)
            if unfinished.known:
                told = f"resumed: {len(unfinished.known)} of {num_episodes} episodes are there"
                console.print(told, style="dim", highlight=False)
            if _is_chat_server(asked.policy):
                limit = f"a request to the server has {asked.request_timeout:g} s at most"
                console.print(limit, style="dim", highlight=False)
            return begun, [
                record
                for one in policies
                for record in await _shown(asked, tasks, one, players, unfinished, console)
            ]
    finally:
        players.close()


def _options(asked: EvaluationRun, tasks: list[Task], weights: str | None) -> AskedOptions:
    return AskedOptions(
        data=str(asked.data),
        policy=asked.policy,
        weights=weights,
        tasks=digest_of(tasks, asked.plan.max_turns),
        role=asked.role,
        max_per_cell=asked.max_per_cell,
        samples=asked.plan.samples,
        max_turns=asked.plan.max_turns,
        seed=asked.seed,
        sampling=asked.sampling,
    )


@asynccontextmanager
async def _policy(asked: EvaluationRun) -> AsyncIterator[tuple[EpisodePolicy, str | None]]:
    """Yield the policy with the digest of its weights, if that is known."""
    if not _is_address(asked.policy):
        yield baseline(asked.policy, asked.seed), None
        return
    if _is_chat_server(asked.policy):
        token = os.environ.get(asked.key_variable) or None
        limits = Timeouts(read_s=asked.request_timeout, total_s=asked.request_timeout)
        async with ChatServer(
            asked.policy, token=token, timeouts=limits, retry=asked.retry
        ) as server:
            model = asked.model or await server.only_model()
            yield ChatPolicy(model, server, model, asked.sampling), None
        return
    settings = read_settings(ServiceSettings)
    token = settings.token_of("inference")
    with purpose_scope(WorkPurpose(Priority.EVALUATION)):
        async with InferenceClient(asked.policy, token=token) as client:
            served = (await client.weight_status()).policy
            digest = served.digest if served else None
            yield RemotePolicy(asked.policy, client, asked.sampling), digest


async def _shown(
    asked: EvaluationRun,
    tasks: list[Task],
    policy: EpisodePolicy,
    players: ReplayPool,
    unfinished: UnfinishedEvaluation,
    console: Console,
) -> list[EpisodeRecord]:
    """Return the episodes of a policy, with a progress line meanwhile; store each at its end."""
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    known = unfinished.of(policy.name)
    num_failed = 0
    with Progress(*columns, console=console) as progress:
        total = len(tasks) * asked.plan.samples
        line = progress.add_task(policy.name, total=total, completed=len(known), failed=0)

        def on_episode(record: EpisodeRecord) -> None:
            nonlocal num_failed
            unfinished.add(record)
            num_failed += record.failure is not None
            progress.update(line, advance=1, failed=num_failed)

        return await evaluate(tasks, policy, players, asked.plan, on_episode, known)


def _write(
    output: Path,
    options: AskedOptions,
    tasks: list[Task],
    evaluation: EvaluationSummary,
    records: list[EpisodeRecord],
) -> None:
    from assay_reward.or_debug.evaluate.figures import draw

    lines = (record.model_dump_json() + "\n" for record in records)
    write_atomically(output / EPISODES, "".join(lines))
    EvaluationFile(
        evaluation=evaluation,
        asked=options,
        policies=tuple(evaluation.policies),
        tasks=tuple(CellTask.of(task) for task in tasks),
        provenance=provenance(),
    ).write(output)
    (output / "report.md").write_text(markdown(evaluation))
    draw(evaluation, output)
