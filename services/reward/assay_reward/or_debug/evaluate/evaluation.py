"""The evaluator: any policy plays the tasks, and all episodes get the same metrics."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pydantic import Field

from assay_reward.environment_task import played_in
from assay_reward.or_debug.dataset.benchmark import HINT, TASKS, must_be_benchmark
from assay_reward.or_debug.dataset.tasks import ENVIRONMENT
from assay_reward.or_debug.episode.actions import instructions
from assay_reward.or_debug.episode.replay_pool import ReplayPool
from assay_reward.or_debug.evaluate.policy import EpisodePolicy, Player, PolicyReply
from assay_shared.errors import (
    AssayError,
    DatasetError,
    InfrastructureError,
    InvalidInput,
    to_failure,
)
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.runtime.gather import gather
from assay_shared.types import Failure, Role, Task, Wire


class EpisodeRecord(Wire):
    """An episode: its replies and metrics. A failed episode has no metrics."""

    policy: str
    task_id: str
    cell: str
    difficulty: str
    sample: int
    turns: tuple[str, ...]
    metrics: dict[str, float] = Field(default={})
    num_tokens: int = 0
    wall_time_s: float = 0.0
    failure: Failure | None = None


OnEpisode = Callable[[EpisodeRecord], None]
_FIRST_EPISODES = 8


@dataclass(frozen=True)
class EvaluationPlan:
    """The amount of play: `samples` is the number of episodes of each task."""

    samples: int = 1
    concurrency: int = 8
    max_turns: int | None = None


def cell_of(task: Task) -> str:
    """Return the benchmark cell of a task, such as `A/easy`."""
    return f"{task.tags.get('error_type', '?')}/{task.tags.get('difficulty', '?')}"


def read_tasks(given: Path, role: Role | None, max_per_cell: int | None = None) -> list[Task]:
    """Return the tasks in all `tasks.jsonl` of a benchmark, or in a single file.

    With `max_per_cell`, return only this number of tasks from the start of each cell.

    Raises:
        DatasetError: a cell has no tasks, a line is not a task of this environment, two cells have
            a task of the same id, or the path is not a benchmark; then the hint says what to do.
    """
    must_be_benchmark(given)
    cells = [cell for cell in sorted(given.glob("type_*")) if cell.is_dir()]
    files = [cell / TASKS for cell in cells] or [given / TASKS if given.is_dir() else given]
    found: dict[str, Task] = {}
    for file in files:
        for task in _chosen(file, role, max_per_cell):
            if task.id in found:
                raise DatasetError(f"{file}: another cell has a task {task.id!r} too", field="id")
            found[task.id] = task
    return list(found.values())


def _chosen(file: Path, role: Role | None, max_per_cell: int | None) -> list[Task]:
    """Return the tasks of a file; an empty cell is an error and never left out."""
    tasks = [task for task in _read(file) if role is None or task.role is role]
    if not tasks:
        wanted = f"there are no tasks of role {role}" if role else "there are no tasks"
        raise DatasetError(wanted, field=str(file), hint="another --role")
    counts: dict[str, int] = {}
    chosen = []
    for task in tasks:
        counts[cell_of(task)] = counts.get(cell_of(task), 0) + 1
        if max_per_cell is None or counts[cell_of(task)] <= max_per_cell:
            chosen.append(task)
    return chosen


def _read(file: Path) -> Iterable[Task]:
    if not file.is_file():
        raise DatasetError("no such file", field=str(file), hint=HINT)
    return read_json_lines(file, _task, lambda task: task.id)


def _task(row: object) -> Task:
    task = Task.model_validate(row)
    if task.environment is None or task.environment.name != ENVIRONMENT:
        raise DatasetError(f"task {task.id} is not played in {ENVIRONMENT}")
    return task


def with_max_turns(task: Task, max_turns: int | None) -> Task:
    """Return the task with another number of turns, in its prompt too."""
    played = played_in(task, ENVIRONMENT)
    if max_turns is None or max_turns == played.max_turns:
        return task
    prompt = task.prompt.replace(instructions(played.max_turns), instructions(max_turns))
    environment = played.model_copy(update={"max_turns": max_turns})
    return task.model_copy(update={"prompt": prompt, "environment": environment})


def digest_of(tasks: Sequence[Task], max_turns: int | None) -> str:
    """Return the SHA-256 of the tasks as they are played: equal digests can be compared."""
    found = hashlib.sha256()
    for task in tasks:
        found.update(with_max_turns(task, max_turns).model_dump_json().encode() + b"\n")
    return found.hexdigest()


async def evaluate(
    tasks: Sequence[Task],
    policy: EpisodePolicy,
    players: ReplayPool,
    plan: EvaluationPlan,
    on_episode: OnEpisode,
    known: Mapping[tuple[str, int], EpisodeRecord] = MappingProxyType({}),
) -> list[EpisodeRecord]:
    """Return all episodes of a policy, in the order of the tasks; call `on_episode` at each end.

    Args:
        known: episodes that are not played again, by task and sample.

    Raises:
        CallerError: a task can never be played, or the first eight requests all fail by the same
            error that a retry cannot help; other failures are in the records.
    """
    room, first = asyncio.Semaphore(plan.concurrency), _FirstEpisodes(has_other=bool(known))

    async def one(task: Task, sample: int) -> EpisodeRecord:
        if (task.id, sample) in known:
            return known[task.id, sample]
        async with room:
            record = await play(with_max_turns(task, plan.max_turns), policy, players, sample)
        on_episode(record)
        first.add(record)
        return record

    return await gather(one(task, sample) for task in tasks for sample in range(plan.samples))


@dataclass
class _FirstEpisodes:
    """The episodes so far, while all have failed alike at their first request."""

    same: Failure | None = None
    num_failed: int = 0
    has_other: bool = False

    def add(self, record: EpisodeRecord) -> None:
        """Count an episode.

        Raises:
            InvalidInput: eight have failed alike, by an error that a retry cannot help.
        """
        found = record.failure
        if self.has_other or found is None or found.retryable or record.turns:
            self.has_other = True
            return
        same = self.same = self.same or found
        self.has_other = (found.service, found.message) != (same.service, same.message)
        self.num_failed += 1
        if not self.has_other and self.num_failed >= _FIRST_EPISODES:
            raise InvalidInput(
                f"the first {self.num_failed} requests of {record.policy} failed alike: "
                f"{same.service}: {same.message}"
            )


async def play(
    task: Task, policy: EpisodePolicy, players: ReplayPool, sample: int
) -> EpisodeRecord:
    """Play an episode to its end or its failure, and return its record.

    Raises:
        CallerError: the task can never be played. An error of the policy is a failure.
    """
    started = time.monotonic()
    turns: list[str] = []
    num_tokens, metrics = 0, {}
    failure: Failure | None = None
    player, played = policy.player(task, sample), played_in(task, ENVIRONMENT)
    try:
        observation, done = task.prompt, False
        while not done:
            reply = await _reply_of(player, observation)
            if not isinstance(reply, PolicyReply):
                failure = reply
                break
            turns.append(reply.text)
            num_tokens += reply.num_tokens
            step = await players.step(played, tuple(turns))
            observation, done = step.observation, step.done
        if failure is None:
            found = await players.measure(played, tuple(turns), judge_claim=True)
            metrics = found.values() | {"tokens": float(num_tokens)}
    except InfrastructureError as error:
        failure = to_failure(error, "evaluation")
    return EpisodeRecord(
        policy=policy.name,
        task_id=task.id,
        cell=cell_of(task),
        difficulty=task.tags.get("difficulty", "?"),
        sample=sample,
        turns=tuple(turns),
        metrics=metrics,
        num_tokens=num_tokens,
        wall_time_s=time.monotonic() - started,
        failure=failure,
    )


async def _reply_of(player: Player, observation: str) -> PolicyReply | Failure | None:
    """Return the player's reply, the failure in its place, or None if the player stops."""
    try:
        return await player.reply(observation)
    except AssayError as error:
        return to_failure(error, "evaluation")
