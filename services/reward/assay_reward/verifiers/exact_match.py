"""Answers of a few words, equal to a reference (SQuAD's exact match, arXiv 1606.05250)."""

from pydantic import BaseModel, ConfigDict, Field

from assay_reward.verifiers.verifier import (
    AnswerContext,
    Measurement,
    Verifier,
    lightly,
    reference_of,
    task_check,
)
from assay_shared.answers.extraction import Extract, extract
from assay_shared.answers.squad_words import normalize_answer
from assay_shared.errors import InvalidInput
from assay_shared.settings.run_file import Config
from assay_shared.types import Status, Task


class References(BaseModel):
    """The check in `task.checks` for exact_match, f1 and qa, with several references."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    references: tuple[str, ...] = Field(min_length=1, max_length=64)


class MatchOptions(Config):
    """The part of an answer to compare."""

    extract: Extract = Extract.WHOLE


def references_of(task: Task, name: str) -> tuple[str, ...]:
    """Return the right answers to a task; each of them is sufficient.

    Raises:
        InvalidInput: the task has no reference, or an empty reference.
    """
    if name not in task.checks:
        return (reference_of(task),)
    references = task_check(task, name, References).references
    if not all(one.strip() for one in references):
        raise InvalidInput("an empty reference", field=f"task.checks.{name}.references")
    return references


def _exact_match(candidate: AnswerContext, options: MatchOptions) -> Measurement:
    """Return 1 for the words of a reference, up to case, punctuation and articles; else 0."""
    given = extract(candidate.text, options.extract)
    if given is None:
        return Measurement(0.0, Status.WRONG_ANSWER, f"nothing is {options.extract}")
    return matched(given, references_of(candidate.task, "exact_match"))


def matched(given: str, references: tuple[str, ...]) -> Measurement:
    """Return 1 if `given` has the words of a reference, else 0."""
    words = normalize_answer(given)
    if words and any(words == normalize_answer(one) for one in references):
        return Measurement(1.0, Status.ACCEPTED, "the words of the reference")
    return Measurement(0.0, Status.WRONG_ANSWER, "other words than the reference")


def _has_reference(task: Task, options: MatchOptions) -> None:
    references_of(task, "exact_match")


EXACT_MATCH = Verifier(_exact_match, MatchOptions, _has_reference, reads=lightly)
