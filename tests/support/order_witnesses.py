"""Witnesses of the run file's fields that decide which tasks are sampled."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from assay_shared.types import Task
from assay_trainer.curriculum.order import TaskOrder
from assay_trainer.curriculum.selection import stage_tasks
from assay_trainer.curriculum.staged_order import StagedOrder
from assay_trainer.curriculum_config import CurriculumConfig
from tests.support.fakes import make_task

_NUM_TASKS = 6
#: Two passes over the tasks.
_NUM_DRAWS = 2 * _NUM_TASKS


@dataclass(frozen=True)
class OrderWitness:
    """A field's other value, with tasks among which it acts and tasks among which it may not."""

    name: str
    before: object
    value: object
    acts_on: str
    acts: list[Task]
    idle_on: str
    idle: list[Task]


def sampled(tasks: list[Task], name: str, value: object) -> Hashable:
    """Return the first tasks in their order; of a curriculum, how often each is sampled."""
    if name == "seed":
        assert isinstance(value, int)
        plain = TaskOrder(tasks, value)
        return tuple(plain.task(draw).id for draw in range(_NUM_DRAWS))
    order: TaskOrder | StagedOrder = TaskOrder(tasks, 0)
    if value is not None:
        config = CurriculumConfig.model_validate(value)
        stages = stage_tasks(config, tasks, "training")
        order = StagedOrder(config, stages, seed=0, groups_per_step=_NUM_DRAWS)
    drawn = [draw for draw in range(_NUM_DRAWS) if order.has(draw)]
    return frozenset(Counter(order.task(draw).id for draw in drawn).items())


def _tasks(*difficulties: str) -> list[Task]:
    return [make_task(f"t{at}", tags={"difficulty": one}) for at, one in enumerate(difficulties)]


_MIXED = _tasks(*["easy", "hard"] * (_NUM_TASKS // 2))
_EASY = _tasks(*["easy"] * _NUM_TASKS)

ORDER_WITNESSES = (
    OrderWitness("seed", 0, 1, "several tasks", _MIXED, "a single task", _tasks("easy")),
    OrderWitness(
        "curriculum",
        None,
        {"stages": [{"name": "easy", "where": {"difficulty": "easy"}, "steps": 1}]},
        "easy and hard tasks",
        _MIXED,
        "easy tasks alone",
        _EASY,
    ),
)
