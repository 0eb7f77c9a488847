"""The order of training tasks. A draw is a number: the same draw is always the same task."""

import random
from collections.abc import Collection
from typing import Protocol

from assay_shared.types import Task
from assay_trainer.curriculum.state import Advance, CurriculumState


class DrawOrder(Protocol):
    """An order of tasks by draw."""

    @property
    def stage(self) -> str | None:
        """Return the name of the stage that is learnt; None without a curriculum."""
        ...

    @property
    def is_over(self) -> bool:
        """Return True if no step is left to learn."""
        ...

    def has(self, draw: int) -> bool:
        """Return True if the order has a task for the draw. Draws are asked for in turn."""
        ...

    def task(self, draw: int) -> Task:
        """Return the task of a draw that the order has."""
        ...

    def skip_stage(self, next_draw: int, reason: str) -> Advance | None:
        """End the learnt stage before its time; return None if no other follows."""
        ...

    def state(self, unfinished: Collection[int]) -> CurriculumState | None:
        """Return what another process needs to give the same tasks for the unfinished draws."""
        ...


class TaskOrder:
    """Tasks in an endless order. Each epoch is another shuffle, derived from seed and epoch."""

    stage = None
    is_over = False

    def __init__(self, tasks: list[Task], seed: int) -> None:
        self._tasks = tasks
        self._seed = seed
        self._epoch = -1
        self._order: list[int] = []

    def has(self, draw: int) -> bool:
        return True

    def task(self, draw: int) -> Task:
        epoch, position = divmod(draw, len(self._tasks))
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = list(range(len(self._tasks)))
            random.Random(f"{self._seed}/{epoch}").shuffle(self._order)
        return self._tasks[self._order[position]]

    def skip_stage(self, next_draw: int, reason: str) -> None:
        return None

    def state(self, unfinished: Collection[int]) -> None:
        return None
