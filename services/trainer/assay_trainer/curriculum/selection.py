"""The tasks of a stage, by their tags. A tag, a value or a cell without tasks is an error."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from assay_shared.errors import ConfigError, RoleError
from assay_shared.types import Role, Task
from assay_trainer.curriculum_config import CurriculumConfig, StageConfig, Where

_MOST_SHOWN = 12


@dataclass(frozen=True)
class TaskPart:
    """Tasks of a stage with their share of its samples."""

    tasks: tuple[Task, ...]
    weight: float


@dataclass(frozen=True)
class StageTasks:
    """The tasks of a stage, in parts; no task is in two of them."""

    name: str
    parts: tuple[TaskPart, ...]

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(task for part in self.parts for task in part.tasks)

    @property
    def has_weights(self) -> bool:
        """Return True if the parts have differing weights."""
        return len({part.weight for part in self.parts}) > 1


def tags_of(task: Task) -> dict[str, str]:
    """Return a task's tags; its dataset is one, and its domain if it has none."""
    return {"dataset": task.dataset, "domain": task.dataset} | task.tags


def stage_tasks(config: CurriculumConfig, tasks: Sequence[Task], name: str) -> list[StageTasks]:
    """Return the tasks of each stage, out of the set `name`.

    Raises:
        ConfigError: a tag, a value or a combination of values has no task, or two parts of a stage
            have a task in common.
    """
    return [_of_stage(stage, tasks, name) for stage in config.stages]


def measured_stages(config: CurriculumConfig, held_out: Sequence[Task]) -> list[StageTasks]:
    """Return the held-out tasks of each stage; none if none are measured.

    Raises:
        ConfigError: see `stage_tasks`.
        RoleError: the end of a stage would depend on rows for tests.
    """
    if config.measure is None:
        return []
    found = stage_tasks(config, held_out, "held-out")
    for stage, tasks in zip(config.stages, found, strict=True):
        if stage.until is not None and any(task.role is Role.TEST for task in tasks.tasks):
            raise RoleError(
                f"{stage.name} has held-out rows for tests alone: they cannot end a stage",
                field=f"curriculum.stages {stage.name}.until",
                hint="use validation rows in data.held_out, and test rows in a tier with at: end",
            )
    return found


def _of_stage(stage: StageConfig, tasks: Sequence[Task], name: str) -> StageTasks:
    field = f"curriculum.stages {stage.name}"
    if not stage.mix:
        found = chosen(tasks, stage.where, f"{field}.where", name)
        return StageTasks(stage.name, (TaskPart(found, 1.0),))
    parts = tuple(
        TaskPart(chosen(tasks, part.where, f"{field}.mix", name), part.weight) for part in stage.mix
    )
    seen: set[str] = set()
    for part in parts:
        ids = {task.id for task in part.tasks}
        if both := sorted(ids & seen):
            message = f"two parts have the {name} task {both[0]} in common"
            raise ConfigError(message, field=f"{field}.mix", hint="make the parts disjoint")
        seen |= ids
    return StageTasks(stage.name, parts)


def chosen(tasks: Sequence[Task], where: Where, field: str, name: str) -> tuple[Task, ...]:
    """Return the tasks that have all tags of `where`.

    Raises:
        ConfigError: no task has a tag, a value, or a combination of the values.
    """
    wanted = {tag: (each,) if isinstance(each, str) else each for tag, each in where.items()}
    tags = [tags_of(task) for task in tasks]
    _check_values(wanted, tags, field, name)
    cells = {tuple(own.get(tag) for tag in wanted) for own in tags}
    for cell in product(*wanted.values()):
        if cell not in cells:
            told = ", ".join(f"{tag}: {value}" for tag, value in zip(wanted, cell, strict=True))
            raise ConfigError(
                f"no {name} task has {told}" if told else f"there are no {name} tasks",
                field=field,
                hint="leave that combination out: give the cells as parts of mix",
            )
    return tuple(
        task
        for task, own in zip(tasks, tags, strict=True)
        if all(own.get(tag) in values for tag, values in wanted.items())
    )


def _check_values(
    wanted: Mapping[str, tuple[str, ...]], tags: Sequence[Mapping[str, str]], field: str, name: str
) -> None:
    for tag, values in wanted.items():
        there = {own[tag] for own in tags if tag in own}
        if not there:
            known = ", ".join(_few({tag for own in tags for tag in own}))
            raise ConfigError(
                f"no {name} task has the tag {tag!r}", field=field, hint=f"tags: {known}"
            )
        for value in values:
            if value not in there:
                raise ConfigError(
                    f"no {name} task has {tag}: {value}",
                    field=field,
                    hint=f"values of {tag}: {', '.join(_few(there))}",
                )


def _few(names: set[str]) -> Iterator[str]:
    ordered = sorted(names)
    yield from ordered[:_MOST_SHOWN]
    if len(ordered) > _MOST_SHOWN:
        yield f"and {len(ordered) - _MOST_SHOWN} more"
