"""Gold answers of imported tasks earn the highest reward of their rubric."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from assay_reward.idempotency import ResponseCache
from assay_reward.instruments import Instruments
from assay_reward.rubric import Rubrics
from assay_reward.scorer import Scorer
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.types import Scored, ScoreRequest, Task
from tests.support.fakes import FakeJudge, FakeSandbox
from tests.support.trainer_imports import read_all

SETS = [
    ("mmlu", "mmlu/test.jsonl.gz", "test"),
    ("arc", "arc/arc_challenge_test.jsonl.gz", "test"),
    ("commonsenseqa", "commonsenseqa/train_rand_split.jsonl.gz", "train"),
    ("bbh", "bbh/bbh_all.jsonl.gz", "test"),
    ("math", "math/math_train_2000.jsonl.gz", "train"),
    ("aime", "aime_amc/aime_1983_2023.jsonl.gz", "train"),
    ("hotpotqa", "hotpotqa/dev_simplified_7405.jsonl.gz", "dev"),
]


async def rewards(tasks: list[Task]) -> list[tuple[Task, float]]:
    """Return the reward of each task's gold answer, by its own rubric and without a judge."""
    instruments = Instruments(FakeSandbox(), FakeJudge(), Symbolic(1.0))
    limiter = FairLimiter(64, 10_000)
    scorer = Scorer(Rubrics(None), instruments, limiter, ResponseCache(0), CollectorRegistry())

    async def score(task: Task) -> tuple[Task, float]:
        (reward,) = (
            await scorer.score(ScoreRequest(task=task, answers=(task.gold or "",)))
        ).rewards
        assert isinstance(reward, Scored), reward
        return task, reward.value

    return await asyncio.gather(*map(score, tasks))


@pytest.mark.parametrize(("name", "file", "split"), SETS, ids=[name for name, *_ in SETS])
async def test_gold_answers_are_right(data_folder: Path, name: str, file: str, split: str) -> None:
    found, _ = read_all(name, data_folder / file, split)
    tasks = [one.task for one in found[:: 1 if name == "aime" else max(1, len(found) // 150)]]
    wrong = [
        (task.id, task.gold, task.reference) for task, value in await rewards(tasks) if value != 1
    ]
    assert wrong == []
