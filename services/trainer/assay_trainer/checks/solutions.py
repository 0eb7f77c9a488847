"""Scores given answers: a dataset's canonical answers, or the answers in a file."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.progress import Progress

from assay_shared.clients import RetryBudget, RewardClient
from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.interfaces import Rewarder
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.runtime.gather import gather
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import AnswerText, Reward, Scored, ScoreRequest, Status, Task
from assay_trainer.data.dataset import DatasetPurpose, named_source, open_dataset

CANONICAL = "canonical"
_WIDTH = 40
_RETRY = RetryBudget(absent_s=0.5)


@dataclass(frozen=True)
class Scoreboard:
    """The rewards of each request's answers, in order."""

    requests: list[ScoreRequest]
    rewards: list[tuple[Reward, ...]]

    @property
    def num_answers(self) -> int:
        return sum(map(len, self.rewards))

    @property
    def num_accepted(self) -> int:
        return self.outcomes()[Status.ACCEPTED]

    def outcomes(self) -> Counter[str]:
        """Return the number of answers by outcome; a failed answer counts by its failure class."""
        return Counter(_outcome(reward) for group in self.rewards for reward in group)

    def write(self, path: Path) -> None:
        """Write a JSON line per answer: its task's id, its index among the answers, its reward."""
        lines = (
            json.dumps({"task_id": task, "answer": at, "reward": reward.model_dump(mode="json")})
            for task, at, _, reward in self._answers()
        )
        path.write_text("".join(line + "\n" for line in lines))

    def lines(self, most: int) -> Iterator[str]:
        """Yield lines about the first answers for people: reward, components, or the failure."""
        for task, _, answer, reward in list(self._answers())[:most]:
            text = answer if isinstance(answer, str) else answer[-1]
            shown = repr(text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "...")
            if isinstance(reward, Scored):
                parts = (f"{one.name} {one.value:g} {one.detail}" for one in reward.components)
                found = f"{reward.value:<8g} {reward.outcome:<14} {'; '.join(parts)}"
            else:
                found = f"{'none':<8} {_outcome(reward):<14} {reward.failure.message}"
            yield f"{task:<12} {shown:<{_WIDTH + 2}} {found}".rstrip()

    def _answers(self) -> Iterator[tuple[str, int, AnswerText, Reward]]:
        for request, rewards in zip(self.requests, self.rewards, strict=True):
            pairs = zip(request.answers, rewards, strict=True)
            for at, (answer, reward) in enumerate(pairs):
                yield request.task.id, at, answer.text, reward


def _outcome(reward: Reward) -> str:
    if isinstance(reward, Scored):
        return reward.outcome
    return f"failed: {reward.failure.failure_class}"


def score_answers(
    answers: str,
    dataset: str | None,
    rubric: str | None,
    settings: ServiceSettings,
    concurrency: int,
) -> Scoreboard:
    """Score answers through the reward service of the settings, showing progress.

    Raises as `read_requests` and `score_all`.
    """
    tasks = None
    if dataset is not None:
        tasks = open_dataset(named_source(dataset), DatasetPurpose.EVALUATE, settings.data).tasks
    requests = read_requests(answers, tasks, rubric)

    async def run() -> Scoreboard:
        with Progress(transient=True, console=Console(stderr=True)) as progress:
            bar = progress.add_task("scoring", total=len(requests))
            async with RewardClient.from_settings(settings, retry=_RETRY) as rewarder:
                return await score_all(
                    requests, rewarder, concurrency, on_scored=lambda: progress.advance(bar)
                )

    return asyncio.run(run())


def read_requests(
    source: str, tasks: list[Task] | None, rubric: str | None = None
) -> list[ScoreRequest]:
    """Return the requests to score, by `rubric` if given.

    Without tasks, each line of the file `source` is a body of /v1/score. With tasks, it has
    `task_id` and `solution`; or `source` is `canonical`: each task's gold answer.

    Raises:
        InvalidInput: `canonical` was requested without a dataset.
        DatasetError: a task has no canonical answer, or a line cannot be used.
    """
    if tasks is None:
        if source == CANONICAL:
            raise InvalidInput("whose answers?", hint="give --answers, or --dataset for its own")
        requests = list(read_json_lines(Path(source), ScoreRequest.model_validate))
    elif source == CANONICAL:
        missing = [task.id for task in tasks if task.gold is None]
        if missing:
            raise DatasetError(f"{len(missing)} tasks have no canonical answer, {missing[0]} first")
        requests = [ScoreRequest(task=task, answers=(task.gold,)) for task in tasks if task.gold]
    else:
        requests = _read_solutions(Path(source), {task.id: task for task in tasks})
    if not requests:
        raise DatasetError(f"{source} has no answers")
    if rubric is None:
        return requests
    return [request.model_copy(update={"rubric": rubric}) for request in requests]


class _Solution(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    task_id: str
    solution: str


def _read_solutions(path: Path, tasks: dict[str, Task]) -> list[ScoreRequest]:
    def parse(line: object) -> ScoreRequest:
        one = _Solution.model_validate(line)
        if one.task_id not in tasks:
            raise DatasetError(f"no task is called {one.task_id!r}", field="task_id")
        return ScoreRequest(task=tasks[one.task_id], answers=(one.solution,))

    return list(read_json_lines(path, parse))


async def score_all(
    requests: list[ScoreRequest],
    rewarder: Rewarder,
    concurrency: int,
    on_scored: Callable[[], None] = lambda: None,
) -> Scoreboard:
    """Score all requests, at most `concurrency` at once.

    Raises:
        AssayError: the service cannot be reached, or cannot score a request at all.
    """
    slots = asyncio.Semaphore(concurrency)

    async def score(request: ScoreRequest) -> tuple[Reward, ...]:
        async with slots:
            response = await rewarder.score(request)
        on_scored()
        return response.rewards

    return Scoreboard(requests, list(await gather(score(request) for request in requests)))
