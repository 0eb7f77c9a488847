"""Instructions with constraints, in two files without a common prompt.

train.jsonl       tasks for training
held_out.jsonl    tasks to measure on, role `validation`
metrics.json      their numbers, by kind, for the gates of a pipeline
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.runs.run_folder import write_atomically, write_json
from assay_shared.types import Role, Task
from assay_trainer.curation.constraining.kinds import (
    TEMPLATES,
    ConstraintTemplate,
    sample_constraints,
)
from assay_trainer.curation.partial import partial_folder
from assay_trainer.data.dataset import DatasetPurpose, named_source, open_dataset

TRAIN, HELD_OUT, METRICS = "train.jsonl", "held_out.jsonl", "metrics.json"
_DATASET = "constrained"
#: Shares of tasks with one, two, three and more constraints, about those of IFEval.
_WEIGHTS = (5, 3, 1, 1, 1, 1)
MOST_CONSTRAINTS = len(_WEIGHTS)


@dataclass(frozen=True)
class ConstrainOrder:
    """What `assay data constrain` makes, of which instructions."""

    sets: tuple[str, ...]
    output: Path
    num_train: int
    num_held_out: int
    most_constraints: int
    max_characters: int
    kinds: tuple[str, ...]
    seed: int
    data_folder: Path | None = None


def make_constrained(order: ConstrainOrder) -> dict[str, Any]:
    """Write the folder of an order and return the numbers of its metrics.json.

    Raises:
        Conflict: the output exists, or another command writes it.
        InvalidInput: a kind is unknown.
        DatasetError: a set cannot be read, or has too few instructions.
    """
    templates = templates_of(order.kinds)
    with partial_folder(order.output) as folder:
        tasks, left_out = _instructions(order)
        wanted = order.num_train + order.num_held_out
        if len(tasks) < wanted:
            told = "".join(f"; left out: {number} {why}" for why, number in left_out.items())
            raise DatasetError(
                f"{wanted} instructions are needed, {order.num_train} for training and "
                f"{order.num_held_out} held out, and the sets have {len(tasks)}{told}",
                field="SET",
                hint="name more sets, or lower --train and --held-out",
            )
        random.Random(f"{order.seed}/order of instructions").shuffle(tasks)
        held_out = [
            _constrained(one, Role.VALIDATION, order, templates)
            for one in tasks[: order.num_held_out]
        ]
        train = [
            _constrained(one, Role.TRAIN, order, templates)
            for one in tasks[order.num_held_out : wanted]
        ]
        for name, part in ((TRAIN, train), (HELD_OUT, held_out)):
            write_atomically(folder / name, "".join(f"{one.model_dump_json()}\n" for one in part))
        numbers = _numbers(train, held_out, left_out)
        write_json(folder / METRICS, {"overall": numbers})
    return numbers


def templates_of(names: Sequence[str]) -> list[ConstraintTemplate]:
    """Return the kinds by name; all of them without any name.

    Raises:
        InvalidInput: a name is unknown.
    """
    known = {one.name: one for one in TEMPLATES}
    if unknown := [name for name in names if name not in known]:
        raise InvalidInput(
            f"no kind of constraint is called {unknown[0]!r}; known: {', '.join(sorted(known))}",
            field="--kind",
        )
    return [known[name] for name in names] if names else list(TEMPLATES)


def _instructions(order: ConstrainOrder) -> tuple[list[Task], Counter[str]]:
    """Return the tasks for training of all sets with different prompts, and what was left out."""
    found: dict[str, Task] = {}
    left_out: Counter[str] = Counter()
    for name in order.sets:
        for task in _opened(name, order.data_folder):
            key = " ".join(task.prompt.casefold().split())
            if task.history or task.environment is not None:
                left_out["with a history or an environment"] += 1
            elif not key or len(task.prompt) > order.max_characters:
                left_out[f"empty or over {order.max_characters} characters"] += 1
            elif key in found:
                left_out["twice"] += 1
            else:
                found[key] = task
    return list(found.values()), left_out


def _opened(name: str, data_folder: Path | None) -> Sequence[Task]:
    try:
        return open_dataset(named_source(name), DatasetPurpose.TRAIN, data_folder).tasks
    except DatasetError as error:
        hint = error.hint or "`assay data import` makes a set of published rows, such as Alpaca's"
        raise DatasetError(error.message, field=error.field, hint=hint) from None


def _constrained(
    task: Task, role: Role, order: ConstrainOrder, templates: Sequence[ConstraintTemplate]
) -> Task:
    rng = random.Random(f"{order.seed}/{task.id}/{task.prompt}")
    most = order.most_constraints
    number = rng.choices(range(1, most + 1), _WEIGHTS[:most])[0]
    prompt = task.prompt.strip()
    names, kwargs, wordings = zip(*sample_constraints(rng, prompt, number, templates), strict=True)
    return Task(
        id=f"{_DATASET}/{task.id}",
        dataset=_DATASET,
        role=role,
        prompt=prompt + rng.choice((" ", "\n\n")) + " ".join(wordings),
        rubric="instructions",
        checks={"constraints": {"instruction_id_list": list(names), "kwargs": list(kwargs)}},
        tags={
            "domain": "instructions",
            "family": names[0].partition(":")[0],
            "constraints": str(len(names)),
        },
    )


def _numbers(
    train: Sequence[Task], held_out: Sequence[Task], left_out: Counter[str]
) -> dict[str, Any]:
    """Return `overall` of metrics.json."""
    return {
        "num_rows": len(train) + len(held_out),
        "num_train": len(train),
        "num_held_out": len(held_out),
        "left_out": dict(left_out),
        "kinds": {"train": _kinds(train), "held_out": _kinds(held_out)},
    }


def _kinds(tasks: Sequence[Task]) -> dict[str, int]:
    checks: list[Any] = [one.checks["constraints"] for one in tasks]
    counts = Counter(name for one in checks for name in one["instruction_id_list"])
    return dict(sorted(counts.items()))
