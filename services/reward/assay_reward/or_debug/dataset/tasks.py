"""Instances as tasks for a trainer: the prompt holds rules and model, and nothing else."""

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from random import Random

from assay_reward.or_debug.dataset.leakage import leaks
from assay_reward.or_debug.episode.actions import instructions
from assay_reward.or_debug.models.instance import Instance
from assay_shared.errors import DatasetError
from assay_shared.types import EnvironmentTask, Role, Task

ENVIRONMENT = DATASET = "or_debug"
RUBRIC = "or_debug.faithful"
MAX_TURNS = 8
#: Shares of the instances of a cell; the rest is for training.
SHARE_VALIDATION = SHARE_TEST = 0.1


class Shown(StrEnum):
    """Content of a prompt. In any case, actions show rows and bounds of the model."""

    RULES = "rules"  # how to act, and the model
    MODEL = "model"  # the model alone: demonstrations show how to act
    SIZE = "size"  # its size: for models too large for any context, and for small policies


def to_task(
    instance: Instance, role: Role, max_turns: int = MAX_TURNS, shown: Shown = Shown.RULES
) -> Task:
    """Return the task to repair `instance` within `max_turns` replies.

    Raises: DatasetError if the prompt would reveal the mistake.
    """
    prompt = _prompt(instance, max_turns, shown)
    if found := leaks(prompt, instance):
        raise DatasetError(f"the prompt says what is wrong: {found}", field=instance.id)
    return Task(
        id=f"{DATASET}/{instance.id}",
        dataset=DATASET,
        role=role,
        prompt=prompt,
        rubric=RUBRIC,
        reference=", ".join(instance.root_cause),
        environment=EnvironmentTask(
            name=ENVIRONMENT, instance=instance.model_dump(mode="json"), max_turns=max_turns
        ),
        tags={
            "error_type": instance.error_type,
            "difficulty": instance.difficulty,
            **instance.tags,
        },
    )


def _prompt(instance: Instance, max_turns: int, shown: Shown) -> str:
    model = instance.model
    match shown:
        case Shown.RULES:
            return f"{instructions(max_turns)}\n\n{model.text()}"
        case Shown.MODEL:
            return model.text()
        case Shown.SIZE:
            return f"{len(model.columns)} columns and {len(model.rows)} rows: infeasible"


def of_cell(
    instances: Sequence[Instance],
    seed: int,
    max_turns: int = MAX_TURNS,
    shown: Shown = Shown.RULES,
) -> list[Task]:
    """Return a task for each instance, in order; roles depend on `seed` and the ids alone.

    A tenth of the tasks is for validation and a tenth for testing; each of the two gets at least
    one task of three or more.
    """
    ids = sorted(instance.id for instance in instances)
    Random(f"{seed}/{ids[0] if ids else ''}").shuffle(ids)
    least = 1 if len(ids) >= 3 else 0
    num_test = max(least, round(SHARE_TEST * len(ids)))
    num_validation = max(least, round(SHARE_VALIDATION * len(ids)))
    roles = dict.fromkeys(ids, Role.TRAIN)
    roles |= dict.fromkeys(ids[:num_test], Role.TEST)
    roles |= dict.fromkeys(ids[num_test : num_test + num_validation], Role.VALIDATION)
    return [to_task(one, roles[one.id], max_turns, shown) for one in instances]


def save(tasks: Iterable[Task], path: Path) -> None:
    """Write a line for each task. A trainer's datasets name each role, the default one too."""
    path.write_text("".join(f"{json.dumps(_row(task))}\n" for task in tasks))


def _row(task: Task) -> dict[str, object]:
    values = task.model_dump(mode="json", exclude_defaults=True)
    return {"id": task.id, "dataset": task.dataset, "role": task.role} | values
