"""Scoring given answers: those a dataset calls right, or those in a file, through the services."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from rich.progress import Progress

from assay_shared.clients import RewardClient
from assay_shared.errors import DatasetError
from assay_shared.interfaces import Rewarder
from assay_shared.json_lines import read_json_lines
from assay_shared.settings import ServiceSettings
from assay_shared.types import Reward, Scored, ScoreRequest, Status, Task
from assay_trainer.config import Source
from assay_trainer.dataset import Purpose, open_dataset

CANONICAL = "canonical"


@dataclass(frozen=True)
class Scoreboard:
    """One reward per task, in order."""

    tasks: list[Task]
    rewards: list[Reward]

    @property
    def num_accepted(self) -> int:
        return self.outcomes()[Status.ACCEPTED]

    def outcomes(self) -> Counter[str]:
        """How many answers ended how; those without a score are named by their failure class."""
        return Counter(
            r.outcome if isinstance(r, Scored) else f"failed: {r.failure.failure_class}"
            for r in self.rewards
        )

    def write(self, path: Path) -> None:
        """One JSON line per task: its id and its reward."""
        pairs = zip(self.tasks, self.rewards, strict=True)
        rows = ({"task_id": t.id, "reward": r.model_dump(mode="json")} for t, r in pairs)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def score_dataset(
    source: Source, solutions: str, settings: ServiceSettings, rubric: str | None, concurrency: int
) -> Scoreboard:
    """Score the solutions of a dataset through the running reward service, showing progress."""
    tasks = open_dataset(source, Purpose.EVALUATE, settings.data).tasks
    answers = read_solutions(solutions, tasks)

    async def run() -> Scoreboard:
        with Progress(transient=True) as progress:
            bar = progress.add_task("scoring", total=len(answers))
            async with RewardClient.from_settings(settings) as rewarder:
                return await score_all(
                    tasks,
                    answers,
                    rewarder,
                    rubric=rubric,
                    concurrency=concurrency,
                    on_scored=lambda: progress.advance(bar),
                )

    return asyncio.run(run())


def read_solutions(source: str, tasks: list[Task]) -> dict[str, str]:
    """Answers by task id: `canonical`, or JSON lines with `task_id` and `solution`.

    Raises:
        DatasetError: a task without a canonical answer, or a line that cannot be used.
    """
    if source != CANONICAL:
        return _read_file(Path(source), {task.id for task in tasks})
    missing = [task.id for task in tasks if task.gold is None]
    if missing:
        raise DatasetError(f"{len(missing)} tasks have no canonical answer, {missing[0]} first")
    return {task.id: task.gold for task in tasks if task.gold is not None}


class _Solution(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    task_id: str
    solution: str


def _read_file(path: Path, known: set[str]) -> dict[str, str]:
    def parse(line: object) -> _Solution:
        one = _Solution.model_validate(line)
        if one.task_id not in known:
            raise DatasetError(f"no task is called {one.task_id!r}", field="task_id")
        return one

    return {one.task_id: one.solution for one in read_json_lines(path, parse)}


async def score_all(
    tasks: list[Task],
    solutions: Mapping[str, str],
    rewarder: Rewarder,
    *,
    rubric: str | None,
    concurrency: int,
    on_scored: Callable[[], None] = lambda: None,
) -> Scoreboard:
    """Score one answer of each task that has one."""
    slots = asyncio.Semaphore(concurrency)

    async def score(task: Task) -> Reward:
        request = ScoreRequest(task=task, answers=(solutions[task.id],), rubric=rubric)
        async with slots:
            response = await rewarder.score(request)
        on_scored()
        return response.rewards[0]

    answered = [task for task in tasks if task.id in solutions]
    rewards = await asyncio.gather(*(score(task) for task in answered))
    return Scoreboard(answered, list(rewards))
