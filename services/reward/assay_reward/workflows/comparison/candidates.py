"""What is compared: fixed workflows, one workflow for all tasks, or a learned one for each task."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from assay_reward.workflows.playing.options import ENVIRONMENT
from assay_reward.workflows.playing.tasks import tasks_at, to_workflow_task
from assay_shared.errors import DatasetError
from assay_shared.types import Task

#: Samples of this candidate are the votes of self-consistency.
DIRECT: Final = "direct"


class CandidateKind(StrEnum):
    """Where a workflow comes from: written by hand, found by a search, or written by a policy."""

    FIXED = "fixed"
    SEARCHED = "searched"
    LEARNED = "learned"


@dataclass(frozen=True)
class WorkflowCandidate:
    """Workflows under one name: `default` for every task, `for_code`, or `by_task` by task id."""

    name: str
    kind: CandidateKind
    default: str | None = None
    for_code: str | None = None
    by_task: Mapping[str, tuple[str, ...]] | None = None

    def sources(self, task: Task, number: int) -> tuple[str, ...]:
        """Return at most `number` replies for a task, a learned policy's own ones; () for none."""
        if self.by_task is not None:
            return self.by_task.get(plain_id(task.id), ())[:number]
        source = self.for_code if self.for_code is not None and is_code(task) else self.default
        return () if source is None else (source,) * number


def plain_id(task_id: str) -> str:
    """Return a task's id without the mark of tasks of workflows."""
    return task_id.removeprefix(f"{ENVIRONMENT}/")


def is_code(task: Task) -> bool:
    """Return True if the answer to a task of a workflow is a program."""
    played = task.environment
    rubric = str(played.instance.get("rubric", "")) if played is not None else task.rubric
    return rubric.startswith("code") or bool(task.tests)


def one_turn(task: Task, rubric: str) -> Task:
    """Return the task of writing a workflow in one turn, made of a plain task if need be.

    Raises:
        DatasetError: the task has another environment, no prompt or no rubric.
    """
    played = task.environment
    if played is None:
        return to_workflow_task(task, rubric=rubric)
    if played.name != ENVIRONMENT:
        raise DatasetError(
            f"task {task.id} has the environment {played.name}, not {ENVIRONMENT}",
            field="environment",
        )
    update = {"max_turns": 1}
    return task.model_copy(
        update={"rubric": rubric, "environment": played.model_copy(update=update)}
    )


def workflow_tasks(path: Path, rubric: str, most: int, seed: int) -> list[Task]:
    """Return at most this number of tasks of writing a workflow, chosen by the seed.

    Raises:
        DatasetError: a task cannot be read or played.
    """
    found = [one_turn(task, rubric) for task in tasks_at(path)]
    if len(found) <= most:
        return found
    return random.Random(f"{seed}/tasks").sample(found, most)


_ANSWER = "found = AnswerGenerate(input=problem)\nreturn found.answer\n"
_PROGRAM = 'found = CustomCodeGenerate(problem=problem, instruction="")\nreturn found.response\n'
_ENSEMBLE = """parallel
{branches}
end
chosen = ScEnsemble(problem=problem, solutions=[{names}])
return chosen.response
"""


def fixed_candidates() -> tuple[WorkflowCandidate, ...]:
    """Return a direct answer, one Programmer step, and five answers with a choice by the model."""
    fixed = CandidateKind.FIXED
    answer, program = "AnswerGenerate(input=problem)", _PROGRAM.partition(" = ")[2].split("\n")[0]
    return (
        WorkflowCandidate(DIRECT, fixed, _ANSWER, _PROGRAM),
        WorkflowCandidate(
            "programmer",
            fixed,
            "found = Programmer(problem=problem)\nreturn found.output\n",
            "found = Programmer(problem=problem)\nreturn found.code\n",
        ),
        WorkflowCandidate(
            "ensemble", fixed, _ensemble(answer, "answer"), _ensemble(program, "response")
        ),
    )


def _ensemble(call: str, field: str, number: int = 5) -> str:
    names = [f"s{place}" for place in range(number)]
    return _ENSEMBLE.format(
        branches="\n".join(f"  {name} = {call}" for name in names),
        names=", ".join(f"{name}.{field}" for name in names),
    )
