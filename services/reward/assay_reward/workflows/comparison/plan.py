"""The plan of a comparison: tasks, candidates and samples, checked before anything is played."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from assay_reward.workflows.comparison.candidates import DIRECT, WorkflowCandidate, plain_id
from assay_reward.workflows.comparison.samples import MAX_ANSWERS
from assay_reward.workflows.playing.tasks import refuse_twice
from assay_shared.errors import DatasetError
from assay_shared.types import Task


@dataclass(frozen=True)
class WorkflowComparison:
    """Tasks of writing a workflow, candidates, and the samples of each.

    `votes` is the number of direct answers to a task, `samples` that of every other candidate.
    """

    tasks: tuple[Task, ...]
    candidates: tuple[WorkflowCandidate, ...]
    votes: int = 16
    samples: int = 1

    def sources(self, task: Task) -> list[tuple[str, str]]:
        """Return each sample of a task: the candidate's name and the reply."""
        return [
            (one.name, source)
            for one in self.candidates
            for source in one.sources(
                task.model_copy(update={"id": plain_id(task.id)}),
                self.votes if one.name == DIRECT else self.samples,
            )
        ]

    def check(self) -> None:
        """Refuse a plan that cannot be carried out.

        Raises:
            DatasetError: two tasks or candidates have one name, a task has too many samples, or a
                learned candidate has no workflow for any task; names the field.
        """
        refuse_twice([task.id for task in self.tasks], "tasks")
        refuse_twice([one.name for one in self.candidates], "learned")
        if not self.tasks:
            raise DatasetError("there is no task", field="tasks")
        known = {plain_id(task.id) for task in self.tasks}
        for one in self.candidates:
            if one.by_task is not None and not known & one.by_task.keys():
                few = ", ".join(sorted(one.by_task)[:3])
                raise DatasetError(
                    f"{one.name} has no workflow for any of the tasks; it has some for {few}",
                    field="learned",
                    hint="name the tasks that its policy was sampled on",
                )
        most = max(len(self.sources(task)) for task in self.tasks)
        if most > MAX_ANSWERS:
            raise DatasetError(
                f"a task has {most} samples; at most {MAX_ANSWERS}",
                field="samples",
                hint="fewer votes, samples or candidates",
            )

    def facts(self) -> dict[str, str]:
        """Return what a resumed comparison must share with the first one, by field."""
        return {
            "tasks": digest_of(task.model_dump_json() for task in self.tasks),
            "candidates": digest_of(
                f"{name}\0{source}" for task in self.tasks for name, source in self.sources(task)
            ),
            "votes": str(self.votes),
            "samples": str(self.samples),
        }


def digest_of(texts: Iterable[str]) -> str:
    """Return the first 16 digits of the SHA-256 of texts, each with its length."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()[:16]
