"""Demonstrations of the form of replies: inspect, then repair, sometimes with a mistake."""

import math
from collections.abc import Iterable, Iterator
from random import Random

from assay_reward.or_debug.dataset.tasks import ENVIRONMENT
from assay_reward.or_debug.episode.actions import Action, ActionName
from assay_reward.or_debug.episode.episode import Episodes
from assay_reward.or_debug.models.instance import Instance, SetColumn, SetRow
from assay_reward.or_debug.models.model import ModelRow
from assay_shared.errors import DatasetError
from assay_shared.types import Message, Role, Task

_MARK = "Action:"
#: Mistakes in demonstrations, all equally frequent.
MISTAKES = ("another_member", "no_action")


def demonstrations(
    tasks: Iterable[Task], episodes: Episodes, *, mistake_rate: float, seed: int
) -> Iterator[Task]:
    """Yield an episode for each training task, with its last reply as `gold`.

    The other replies are in `history`, with their observations; all are to be learnt. In a share of
    the episodes the repair is a mistake, because something must be left to learn.

    Raises: DatasetError for a task of another environment.
    """
    for task in tasks:
        if task.role is not Role.TRAIN:
            continue
        instance = _instance(task)
        draw = Random(f"{seed}/{instance.id}")
        mistake = draw.choice(MISTAKES) if draw.random() < mistake_rate else None
        yield _episode(task, _replies(instance, draw, mistake), instance, episodes)


def _instance(task: Task) -> Instance:
    if task.environment is None or task.environment.name != ENVIRONMENT:
        raise DatasetError(f"task {task.id} is not played in {ENVIRONMENT}")
    return Instance.model_validate(task.environment.instance)


def _episode(task: Task, replies: list[str], instance: Instance, episodes: Episodes) -> Task:
    """Return the last turn as a task, with all earlier messages in its history."""
    played = task.environment
    assert played is not None
    history: tuple[Message, ...] = ()
    prompt = task.prompt
    replies = replies[: played.max_turns]
    for number, reply in enumerate(replies[:-1], start=1):
        history += (
            Message(role="user", content=prompt),
            Message(role="assistant", content=reply),
        )
        turns = tuple(replies[:number])
        prompt = episodes.replay(instance.model, turns, played.max_turns).observation
    return task.model_copy(
        update={"history": history, "prompt": prompt, "gold": replies[-1], "environment": None}
    )


def _replies(instance: Instance, draw: Random, mistake: str | None) -> list[str]:
    look = _said(Action(ActionName.GET_IIS))
    if mistake is not None:
        return [look, _mistaken(instance, draw, mistake)]
    repairs = [_repair(instance, name) for name in instance.root_cause]
    submit = _said(Action(ActionName.SUBMIT, names=instance.root_cause))
    return [look, *repairs, submit]


def _repair(instance: Instance, name: str) -> str:
    """Return the action to restore a column's bounds or a row's side, or else to drop the row."""
    for edit in instance.fix:
        if isinstance(edit, SetRow) and edit.row.name == name:
            return _row_repair(instance.model.row(name), edit.row)
        if isinstance(edit, SetColumn) and edit.column.name == name:
            bounds = (edit.column.lower, edit.column.upper)
            return _said(Action(ActionName.UPDATE_BOUNDS, target=name, values=bounds))
    return _said(Action(ActionName.DROP, target=name))


def _row_repair(broken: ModelRow, right: ModelRow) -> str:
    if broken.coefficients == right.coefficients and broken.sense == right.sense != "range":
        value = right.upper if math.isinf(right.lower) else right.lower
        return _said(Action(ActionName.UPDATE_RHS, target=right.name, values=(value,)))
    return _said(Action(ActionName.DROP, target=right.name))


def _mistaken(instance: Instance, draw: Random, mistake: str) -> str:
    rows = [row.name for row in instance.model.rows if row.name not in instance.root_cause]
    if mistake == "no_action" or not rows:
        return f"{_MARK} DROP()"
    wrong = [name for name in rows if name in instance.iis.rows] or rows
    return _said(Action(ActionName.DROP, target=draw.choice(wrong)))


def _said(action: Action) -> str:
    return f"{_MARK} {action}"
