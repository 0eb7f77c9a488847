"""Multiple choice: the letter of an option, or its text."""

from functools import cached_property

from pydantic import BaseModel, ConfigDict, Field, model_validator

from assay_reward.verifiers.verifier import (
    AnswerContext,
    Measurement,
    NoOptions,
    Verifier,
    lightly,
    task_check,
)
from assay_shared.answers.choices.choice import chosen_letter
from assay_shared.answers.choices.options import LETTERS, ChoiceOptions, is_there_twice, options_of
from assay_shared.types import Status, Task


class Choices(BaseModel):
    """The check `task.checks.choice`: the options' texts in order, and the right letter."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: tuple[str, ...] = Field(min_length=2, max_length=len(LETTERS))
    answer: str = Field(pattern=r"^[A-Z]$")

    @model_validator(mode="after")
    def _is_an_option(self) -> "Choices":
        if self.answer not in LETTERS[: len(self.options)]:
            raise ValueError(f"there is no option {self.answer} among {len(self.options)}")
        if is_there_twice(self.options, self.answer):
            raise ValueError("another option says the same as the right one")
        return self

    @cached_property
    def texts(self) -> ChoiceOptions:
        return options_of(self.options)


def _choice(candidate: AnswerContext, options: NoOptions) -> Measurement:
    """Return 1 for the right option, else 0; an answer with several options chooses none."""
    choices = candidate.group.check("choice", Choices)
    chosen = chosen_letter(candidate.text, choices.texts)
    right = chosen == choices.answer
    outcome = Status.ACCEPTED if right else Status.WRONG_ANSWER
    return Measurement(float(right), outcome, f"chose {chosen}" if chosen else "chose nothing")


def _has_choices(task: Task, options: NoOptions) -> None:
    task_check(task, "choice", Choices)


CHOICE = Verifier(_choice, NoOptions, _has_choices, reads=lightly)
