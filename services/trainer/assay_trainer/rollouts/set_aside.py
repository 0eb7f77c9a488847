"""Tasks that cannot be sampled or scored for their own reasons: each costs only itself.

They are left out, counted and named. Too many of them point to another fault and end the run.
"""

import math
from collections.abc import Callable, Iterable, Sequence

from pydantic_core import PydanticSerializationError

from assay_shared.errors import BudgetExceeded, DatasetError
from assay_shared.types import Failure, FailureClass, Scored, ScoredGroup, Task
from assay_trainer.events import TaskSetAside

_SHOWN_CHARACTERS = 300


class SetAside:
    """The tasks set aside from a set, by id, with their reasons."""

    def __init__(
        self, name: str, num_tasks: int, max_share: float, report: Callable[[TaskSetAside], None]
    ) -> None:
        """Start with no task set aside.

        Args:
            name: name of the set for people: training, held-out.
            num_tasks: number of tasks in the whole set.
            max_share: largest share to set aside, rounded up to whole tasks; 0 allows none.
            report: gets each task set aside.
        """
        self._name = name
        self._num_tasks = num_tasks
        self._most = math.ceil(max_share * num_tasks)
        self._report = report
        self._reasons: dict[str, str] = {}

    def __contains__(self, task: Task) -> bool:
        return task.id in self._reasons

    @property
    def reasons(self) -> dict[str, str]:
        """Why each task is left out, by its id as it is shown to people."""
        return {shown(task_id): reason for task_id, reason in self._reasons.items()}

    def add(self, task: Task, reason: str) -> None:
        """Set a task aside.

        Raises:
            DatasetError: more tasks than allowed are set aside now, or all.
        """
        self.add_all([(task, reason)])

    def add_all(self, found: Sequence[tuple[Task, str]]) -> None:
        """Set several tasks aside together; an error counts all of them.

        Raises:
            DatasetError: more tasks than allowed are set aside now, or all.
        """
        for task, reason in found:
            if task not in self:
                self._reasons[task.id] = shown(reason)
                if len(self._reasons) <= self._most + 1:
                    self._report(
                        TaskSetAside(set=self._name, task=shown(task.id), reason=shown(reason))
                    )
        if len(self._reasons) > self._most:
            raise DatasetError(
                f"{len(self._reasons)} of {self._num_tasks} {self._name} tasks cannot be sampled "
                f"or scored, and at most {self._most} may be set aside; the last: {self._last}",
                field="data.max_set_aside_share",
            )
        if self._reasons and len(self._reasons) == self._num_tasks:
            raise DatasetError(f"all {self._name} tasks are set aside; the last: {self._last}")

    @property
    def _last(self) -> str:
        task_id, reason = next(reversed(self._reasons.items()))
        return f"{shown(task_id)}: {reason}"


def shown(text: str) -> str:
    """Return a task's text for people: a single short line without half characters."""
    line = " ".join(text.encode(errors="replace").decode().split())
    return line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "..."


def own_failure(scored: ScoredGroup) -> Failure | None:
    """Return the reason in the task itself for a group without a score; None for other reasons.

    Raises:
        BudgetExceeded: a budget is spent: no task can be scored any more.
    """
    if scored.failure is not None:
        failures = [scored.failure]
    elif any(isinstance(reward, Scored) for reward in scored.rewards):
        return None
    else:
        failures = [one.failure for one in scored.rewards if not isinstance(one, Scored)]
    if not failures or any(failure.retryable for failure in failures):
        return None
    of_group = scored.failure
    if of_group is not None and of_group.failure_class is FailureClass.BUDGET:
        raise BudgetExceeded(f"{of_group.service}: {of_group.message}")
    lasting = (FailureClass.CALLER, FailureClass.INTERNAL)
    if of_group is None and any(one.failure_class not in lasting for one in failures):
        return None
    return failures[0]


def unreadable(tasks: Iterable[Task]) -> list[tuple[Task, str]]:
    """Return the tasks that cannot be sent over HTTP, with the reason."""
    return [(task, reason) for task in tasks if (reason := _unreadable(task))]


def _unreadable(task: Task) -> str | None:
    try:
        task.model_dump_json()
    except (PydanticSerializationError, UnicodeEncodeError):
        return "it has half of a surrogate pair in it, which is not text"
    if not task.prompt.strip() and not task.history and task.environment is None:
        return "its prompt is empty"
    return None


def without_rubric(tasks: Iterable[Task], rubrics: set[str]) -> list[tuple[Task, str]]:
    """Return the tasks with a rubric unknown to the reward service, with the reason."""
    return [
        (task, f"there is no rubric {task.rubric!r}")
        for task in tasks
        if task.rubric not in rubrics
    ]
