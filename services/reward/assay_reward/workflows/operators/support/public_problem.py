"""The part of a task that a workflow and its operators may see: no reference, no hidden test."""

from dataclasses import dataclass, field

from assay_shared.answers.whole_program import whole_program
from assay_shared.repair.public_cases import public_cases
from assay_shared.types import Limits, Task, TestCase


@dataclass(frozen=True)
class PublicProblem:
    """A problem without its solution: the text, the head of a program, and the public tests."""

    text: str
    id: str = "unnamed"
    code_prefix: str = ""
    cases: tuple[TestCase, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def of(cls, task: Task, text: str, limits: Limits | None = None) -> "PublicProblem":
        """Return the public part of a task, with `text` as the problem.

        Raises:
            InvalidInput: the task's check `public` cannot be used.
        """
        shown = task.model_copy(update={"prompt": text})
        return cls(text, task.id, task.code_prefix, public_cases(shown), limits or Limits())

    def program(self, answer: str) -> str:
        """Return an answer as a whole program, with the head that the task gives."""
        return whole_program(Task(code_prefix=self.code_prefix), answer)
