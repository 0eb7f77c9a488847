"""A pass over a stage's tasks: which tasks, and in which order."""

import random
from collections.abc import Mapping

from assay_shared.types import Task
from assay_trainer.curriculum.selection import StageTasks
from assay_trainer.curriculum.state import RecentRate, TaskPass
from assay_trainer.curriculum_config import PoolConfig


def tasks_of(stage: StageTasks, one: TaskPass, seed: int) -> list[Task]:
    """Return the tasks of a pass in their order.

    Each task is in it once. Where the stage's parts have weights, the pass is as long, and each
    part has its share: some tasks are in it several times, or not at all.
    """
    rng = random.Random(f"{seed}/{stage.name}/{one.number}")
    left_out = set(one.left_out)
    parts = [[task for task in part.tasks if task.id not in left_out] for part in stage.parts]
    if stage.has_weights:
        parts = _weighted(stage, parts, rng)
    order = [task for part in parts for task in part]
    rng.shuffle(order)
    return order


def _weighted(stage: StageTasks, parts: list[list[Task]], rng: random.Random) -> list[list[Task]]:
    total = sum(len(part.tasks) for part in stage.parts)
    whole = sum(part.weight for part in stage.parts)
    found = []
    for part, tasks in zip(stage.parts, parts, strict=True):
        num = max(1, round(total * part.weight / whole))
        shuffled = rng.sample(tasks, len(tasks))
        found.append([shuffled[index % len(tasks)] for index in range(num)])
    return found


def left_out_of(
    stage: StageTasks,
    number: int,
    rates: Mapping[str, RecentRate],
    pool: PoolConfig | None,
    seed: int,
) -> tuple[str, ...]:
    """Return the ids of the tasks that the pool leaves out of a pass; never all of a part."""
    if pool is None:
        return ()
    found: list[str] = []
    for part in stage.parts:
        out = [task.id for task in part.tasks if _is_out(task.id, stage, number, rates, pool, seed)]
        if len(out) < len(part.tasks):
            found += out
    return tuple(found)


def is_rare(rate: RecentRate | None, pool: PoolConfig) -> bool:
    """Return True if the policy always or never solves the task, as far as is known."""
    if rate is None or rate.num_scored < pool.least_samples:
        return False
    return not pool.low < rate.passed / rate.scored < pool.high


def _is_out(
    task_id: str,
    stage: StageTasks,
    number: int,
    rates: Mapping[str, RecentRate],
    pool: PoolConfig,
    seed: int,
) -> bool:
    if not is_rare(rates.get(task_id), pool):
        return False
    rng = random.Random(f"{seed}/pool/{stage.name}/{number}/{task_id}")
    return rng.random() >= pool.rare_share
