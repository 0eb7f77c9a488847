"""Rows to train on: what is held out of them, and the number of updates on the rest."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from assay_shared.errors import DatasetError
from assay_shared.types import Task
from assay_trainer.config import GivenRowsConfig

Row = TypeVar("Row")
#: Token ids, and which of them are learnt.
LearntIds = tuple[list[int], list[bool]]
#: Token ids of a prompt, its chosen answer and its rejected answer.
PairIds = tuple[list[int], list[int], list[int]]


def hold_out(
    rows: Sequence[Row], task_of: Callable[[Row], Task], share: float, seed: int, field: str
) -> tuple[list[Row], list[Row]]:
    """Return the rows to train on and the rows held out, both in their order.

    Rows with the same first message of a user stay together: answers to one prompt, replies of one
    episode. `share` is of such groups, at least one; with 0, no row is held out.

    Raises:
        DatasetError: nothing would be left to train on.
    """
    if share == 0:
        return list(rows), []
    groups = list(dict.fromkeys(_first_message(task_of(row)) for row in rows))
    num_held_out = max(1, round(share * len(groups)))
    if num_held_out >= len(groups):
        raise DatasetError(
            f"{len(groups)} prompts, of which {num_held_out} are held out, leave none to train on",
            field=field,
        )
    held_out = set(random.Random(f"{seed}/{field}").sample(groups, num_held_out))
    train: list[Row] = []
    kept: list[Row] = []
    for row in rows:
        (kept if _first_message(task_of(row)) in held_out else train).append(row)
    return train, kept


def _first_message(task: Task) -> str:
    return next(message.content for message in task.messages if message.role == "user")


def num_updates(config: GivenRowsConfig, num_rows: int) -> int:
    """Return the updates of a stage; the last update of a pass may have fewer rows."""
    if config.steps is not None:
        return config.steps
    assert config.epochs is not None
    return config.epochs * -(-num_rows // config.batch_size)
