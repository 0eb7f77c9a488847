"""Instances as tasks for a trainer: the prompt is the rules and the model, and nothing else."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from assay_reward.or_debug.actions import instructions
from assay_reward.or_debug.instance import Instance
from assay_reward.or_debug.leakage import leaks
from assay_shared.errors import DatasetError
from assay_shared.types import EnvironmentTask, Role, Task

ENVIRONMENT = DATASET = "or_debug"
RUBRIC = "or_debug.faithful"
MAX_TURNS = 8
#: Of the instances of a cell; the rest is for training.
SHARE_VALIDATION = SHARE_TEST = 0.1


def to_task(
    instance: Instance, role: Role, max_turns: int = MAX_TURNS, *, brief: bool = False
) -> Task:
    """The task to repair `instance` within `max_turns` replies.

    `brief`: the prompt is the model alone, for a policy that learns the form of a reply from
    demonstrations.

    Raises: DatasetError where the prompt would tell what is wrong.
    """
    model = instance.model.text()
    prompt = model if brief else f"{instructions(max_turns)}\n\n{model}"
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


def of_cell(
    instances: Sequence[Instance], seed: int, max_turns: int = MAX_TURNS, *, brief: bool = False
) -> list[Task]:
    """A task for each, in order, of a role that depends on `seed` and the ids alone.

    A tenth of them is for validation and a tenth for testing, at least one each of three or more.
    """
    ids = sorted(instance.id for instance in instances)
    Random(f"{seed}/{ids[0] if ids else ''}").shuffle(ids)
    least = 1 if len(ids) >= 3 else 0
    num_test = max(least, round(SHARE_TEST * len(ids)))
    num_validation = max(least, round(SHARE_VALIDATION * len(ids)))
    roles = dict.fromkeys(ids, Role.TRAIN)
    roles |= dict.fromkeys(ids[:num_test], Role.TEST)
    roles |= dict.fromkeys(ids[num_test : num_test + num_validation], Role.VALIDATION)
    return [to_task(one, roles[one.id], max_turns, brief=brief) for one in instances]


def save(tasks: Iterable[Task], path: Path) -> None:
    """Write one task a line."""
    path.write_text("".join(f"{task.model_dump_json(exclude_defaults=True)}\n" for task in tasks))
