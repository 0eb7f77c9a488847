"""The environment part of a task: reading it, and checks."""

from typing import TypeVar

from pydantic import BaseModel

from assay_shared.errors import InvalidInput
from assay_shared.settings.validation import validated
from assay_shared.types import EnvironmentTask, Task

Instance = TypeVar("Instance", bound=BaseModel)


def played_in(task: Task, name: str) -> EnvironmentTask:
    """Return the task's part for the environment `name`.

    Raises:
        InvalidInput: the task has no environment, or another.
    """
    if task.environment is None:
        raise InvalidInput(f"task {task.id} is not played anywhere", field="task.environment")
    if task.environment.name != name:
        raise InvalidInput(
            f"task {task.id} is played in {task.environment.name!r}, not in {name!r}",
            field="task.environment.name",
        )
    return task.environment


def read_instance(played: EnvironmentTask, kind: type[Instance]) -> Instance:
    """Return the environment's part of the task, parsed as `kind`.

    Raises:
        InvalidInput: the part does not have this form; names the field.
    """
    return validated(kind, played.instance, "task.environment.instance")


def check_not_over(num_turns: int, max_turns: int) -> None:
    """Raise InvalidInput for more turns than the episode allows."""
    if num_turns > max_turns:
        raise InvalidInput(
            f"the episode ends after {max_turns} turns, and there are {num_turns}", field="turns"
        )
