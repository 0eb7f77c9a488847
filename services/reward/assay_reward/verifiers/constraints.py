"""Answers that follow instructions (IFEval, arXiv 2311.07911)."""

from enum import StrEnum

from assay_reward.answers.constraints.instructions import (
    NUM_VARIANTS,
    Instructions,
    follows,
    follows_loosely,
)
from assay_reward.verifiers.verifier import (
    AnswerContext,
    GroupContext,
    Measurement,
    Verifier,
    task_check,
)
from assay_shared.settings.run_file import Config
from assay_shared.types import Status, Task


class Mode(StrEnum):
    """`loose`: markdown and a first or last line of small talk are passed over."""

    STRICT = "strict"
    LOOSE = "loose"


class ConstraintValue(StrEnum):
    """`share`: of the instructions that are followed. `all`: 1 if all are, else 0."""

    SHARE = "share"
    ALL = "all"


class ConstraintOptions(Config):
    """How strictly, and what counts."""

    mode: Mode = Mode.STRICT
    value: ConstraintValue = ConstraintValue.SHARE


def _constraints(candidate: AnswerContext, options: ConstraintOptions) -> Measurement:
    """The share of the task's instructions that are followed, or whether all are."""
    constraints = candidate.sitting.check("constraints", Instructions).constraints
    check = follows if options.mode is Mode.STRICT else follows_loosely
    missed = [one.name for one in constraints if not check(one, candidate.text)]
    share = 1 - len(missed) / len(constraints)
    return Measurement(
        float(not missed) if options.value is ConstraintValue.ALL else share,
        Status.WRONG_ANSWER if missed else Status.ACCEPTED,
        f"missed: {', '.join(missed)}" if missed else "all followed",
    )


def _reads(sitting: GroupContext, options: ConstraintOptions) -> float:
    constraints = sitting.check("constraints", Instructions).constraints
    variants = NUM_VARIANTS if options.mode is Mode.LOOSE else 1
    return variants * sum(one.reads for one in constraints)


def _has_instructions(task: Task, options: ConstraintOptions) -> None:
    task_check(task, "constraints", Instructions)


CONSTRAINTS = Verifier(_constraints, ConstraintOptions, _has_instructions, reads=_reads)
