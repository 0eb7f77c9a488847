"""Episodes to learn the form of a reply from: look, then repair, some of them with a mistake."""

from collections.abc import Iterable, Iterator
from random import Random

from assay_reward.or_debug.actions import Action, ActionName
from assay_reward.or_debug.episode import Episodes
from assay_reward.or_debug.instance import Instance, SetColumn
from assay_reward.or_debug.tasks import ENVIRONMENT
from assay_shared.errors import DatasetError
from assay_shared.types import Message, Role, Task

_MARK = "Action:"
#: Without history: of so many tasks one shows its first turn, and one its others as a whole.
_FIRST_EVERY, _WHOLE_EVERY = 10, 5
#: What a policy may do wrong, each as often as the others.
MISTAKES = ("another_member", "another_row", "no_action")


def demonstrations(
    tasks: Iterable[Task],
    episodes: Episodes,
    *,
    mistake_rate: float,
    seed: int,
    with_history: bool,
) -> Iterator[Task]:
    """For each task for training, a row for every turn of an episode of it.

    A row's `history` is what was said before, its `gold` what to say next. In a share of the
    episodes the repair is a mistake: there has to be something left to learn. Without history, a
    row shows the last observation alone: short texts, for a small policy's first lessons. Of the
    first turn, whose observation is the whole model, there is one row in ten then, and of the
    others one in five once more with its history, to show what the short ones stand for.

    Raises: DatasetError for a task that is not played here.
    """
    trained = (task for task in tasks if task.role is Role.TRAIN)
    for number, task in enumerate(trained):
        instance = _instance(task)
        draw = Random(f"{seed}/{instance.id}")
        mistake = draw.choice(MISTAKES) if draw.random() < mistake_rate else None
        rows = _rows(task, _replies(instance, draw, mistake), instance, episodes)
        yield from rows if with_history else _short(rows, number)


def _short(rows: Iterable[Task], number: int) -> Iterator[Task]:
    """Of the task with this number, rows without history and a few with it."""
    for row in rows:
        if row.history:
            yield row.model_copy(update={"id": f"{row.id}/short", "history": ()})
        if number % (_WHOLE_EVERY if row.history else _FIRST_EVERY) == 0:
            yield row


def _instance(task: Task) -> Instance:
    if task.environment is None or task.environment.name != ENVIRONMENT:
        raise DatasetError(f"task {task.id} is not played in {ENVIRONMENT}")
    return Instance.model_validate(task.environment.instance)


def _rows(task: Task, replies: list[str], instance: Instance, episodes: Episodes) -> Iterator[Task]:
    played = task.environment
    assert played is not None
    history: tuple[Message, ...] = ()
    prompt = task.prompt
    for at, reply in enumerate(replies[: played.max_turns]):
        yield task.model_copy(
            update={
                "id": f"{task.id}/turn{at + 1}",
                "history": history,
                "prompt": prompt,
                "gold": reply,
                "environment": None,
            }
        )
        turns = tuple(replies[: at + 1])
        history += (
            Message(role="user", content=prompt),
            Message(role="assistant", content=reply),
        )
        prompt = episodes.replay(instance.model, turns, played.max_turns).observation


def _replies(instance: Instance, draw: Random, mistake: str | None) -> list[str]:
    look = _said(Action(ActionName.GET_IIS))
    if mistake is not None:
        return [look, _mistaken(instance, draw, mistake)]
    repairs = [_repair(instance, name) for name in instance.root_cause]
    submit = _said(Action(ActionName.SUBMIT, names=instance.root_cause))
    return [look, *repairs, submit]


def _repair(instance: Instance, name: str) -> str:
    """Take a row of the root cause out; give a column its old bounds back."""
    for edit in instance.fix:
        if isinstance(edit, SetColumn) and edit.column.name == name:
            bounds = (edit.column.lower, edit.column.upper)
            return _said(Action(ActionName.UPDATE_BOUNDS, target=name, values=bounds))
    return _said(Action(ActionName.DROP, target=name))


def _mistaken(instance: Instance, draw: Random, mistake: str) -> str:
    if mistake == "no_action":
        return f"{_MARK} DROP()"
    members = set(instance.iis.rows) if mistake == "another_member" else set()
    rows = [row.name for row in instance.model.rows if row.name not in instance.root_cause]
    wrong = [name for name in rows if not members or name in members] or rows
    return _said(Action(ActionName.DROP, target=draw.choice(wrong)))


def _said(action: Action) -> str:
    return f"{_MARK} {action}"
