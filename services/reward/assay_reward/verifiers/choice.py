"""Multiple choice: the letter of an option, or its text."""

import re

from pydantic import BaseModel, ConfigDict, Field, model_validator

from assay_reward.extraction import last_boxed
from assay_reward.measurement import (
    Candidate,
    Measured,
    NoOptions,
    Verifier,
    lightly,
    task_check,
)
from assay_shared.types import Status, Task
from assay_shared.words import normalise

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTER = r"[(\[*]*([A-Z])(?![A-Za-z])[)\]*.:]*"
#: One letter is an answer; "A or B", "A, B" and "A and B" are none.
_CLAIMED = re.compile(
    r"\b(?:answer|choice|option)\b(?:\s+(?:is|would be))?\s*:?\s*(?:option\s+)?"
    + _LETTER
    + r"(?!\s*(?:,|/|&|or\b|and\b)\s*[(\[]?[A-Z](?![A-Za-z]))",
    re.IGNORECASE,
)
_ALONE = re.compile(_LETTER)
_LABELLED = re.compile(r"[(\[]?([A-Z])[)\].:]\s*(.+)", re.DOTALL)


class Choices(BaseModel):
    """What `task.checks.choice` says: the options' texts in order, and the right one's letter."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: tuple[str, ...] = Field(min_length=2, max_length=len(_LETTERS))
    answer: str = Field(pattern=r"^[A-Z]$")

    @model_validator(mode="after")
    def _is_an_option(self) -> "Choices":
        if self.answer not in _LETTERS[: len(self.options)]:
            raise ValueError(f"there is no option {self.answer} among {len(self.options)}")
        texts = [normalise(option) for option in self.options]
        if len(set(texts)) < len(texts):
            raise ValueError("two options are the same")
        return self

    @property
    def by_text(self) -> dict[str, str]:
        return {
            normalise(text): letter for letter, text in zip(_LETTERS, self.options, strict=False)
        }


def _choice(candidate: Candidate, options: NoOptions) -> Measured:
    """1 for the right option, else 0; an answer that names several has chosen none."""
    choices = candidate.sitting.check("choice", Choices)
    chosen = chosen_letter(candidate.text, choices)
    right = chosen == choices.answer
    outcome = Status.ACCEPTED if right else Status.WRONG_ANSWER
    return Measured(float(right), outcome, f"chose {chosen}" if chosen else "chose nothing")


def chosen_letter(text: str, choices: Choices) -> str | None:
    """The letter of the chosen option.

    In this order: the last \\boxed{}, the last "the answer is B" or "Answer: B", and the whole text
    as a letter, as an option's text, or as both ("B) Paris").
    """
    boxed = last_boxed(text)
    if boxed is not None:
        return _as_option(boxed, choices)
    claimed = _CLAIMED.findall(text)
    if claimed:
        return _known(claimed[-1], choices)
    return _as_option(text.strip(), choices)


def _as_option(text: str, choices: Choices) -> str | None:
    alone = _ALONE.fullmatch(text)
    if alone:
        return _known(alone.group(1), choices)
    labelled = _LABELLED.fullmatch(text)
    if labelled:
        letter = choices.by_text.get(normalise(labelled.group(2)))
        return letter if letter == labelled.group(1) else None
    return choices.by_text.get(normalise(text))


def _known(letter: str, choices: Choices) -> str | None:
    upper = letter.upper()
    return upper if upper in _LETTERS[: len(choices.options)] else None


def _has_choices(task: Task, options: NoOptions) -> None:
    task_check(task, "choice", Choices)


CHOICE = Verifier(_choice, NoOptions, _has_choices, reads=lightly)
