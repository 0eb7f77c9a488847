"""The workflow part of a task: the problem, its own rubric, and the budgets."""

from typing import Final

from pydantic import Field, ValidationInfo, field_validator

from assay_reward.workflows.execution.budgets import RunBudgets
from assay_shared.settings.run_file import Config

ENVIRONMENT: Final = "workflow"


class WorkflowOptions(Config):
    """The instance of a task in the environment `workflow`.

    The policy reads the task's prompt. The executor reads `problem`, and the answer of the workflow
    is scored by `rubric` with the task's reference or tests.
    """

    #: The problem as the executor reads it.
    problem: str = Field(min_length=1, max_length=100_000)
    #: The rubric of the answer: math, choice, qa, code.sparse.
    rubric: str = Field(min_length=1, max_length=200)
    budgets: RunBudgets = Field(default=RunBudgets(), validate_default=True)
    #: Whether a workflow with known slips is repaired before it runs.
    repair: bool = True
    #: Characters of each prompt and reply in the traces of rewards; 0 leaves the texts out.
    trace_chars: int = Field(default=400, ge=0, le=4000)

    @field_validator("budgets")
    @classmethod
    def _holds_the_problem(cls, budgets: RunBudgets, info: ValidationInfo) -> RunBudgets:
        """Refuse a problem that leaves no room in a prompt: every workflow would be at fault."""
        num_chars, most = len(info.data.get("problem", "")), budgets.text_chars // 2
        if num_chars > most:
            raise ValueError(
                f"text_chars is {budgets.text_chars}, and the problem has {num_chars} characters; "
                "set text_chars to at least twice the problem, or leave the task out"
            )
        return budgets
