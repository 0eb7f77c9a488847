"""Instruction following, by checks of an answer's text (IFEval, arXiv 2311.07911)."""

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
    """Strictness. `loose` ignores asterisks, and a first or last line of small talk."""

    STRICT = "strict"
    LOOSE = "loose"


class ConstraintValue(StrEnum):
    """The value: `share` of followed instructions; `all`: 1 if all are followed, else 0."""

    SHARE = "share"
    ALL = "all"


class ConstraintOptions(Config):
    """Strictness of the checks, and the value of an answer."""

    mode: Mode = Mode.STRICT
    value: ConstraintValue = ConstraintValue.SHARE


def _constraints(candidate: AnswerContext, options: ConstraintOptions) -> Measurement:
    """Return the share of followed instructions, or for `all` 1 or 0."""
    constraints = candidate.group.check("constraints", Instructions).constraints
    check = follows if options.mode is Mode.STRICT else follows_loosely
    missed = [one.name for one in constraints if not check(one, candidate.text)]
    share = 1 - len(missed) / len(constraints)
    return Measurement(
        float(not missed) if options.value is ConstraintValue.ALL else share,
        Status.WRONG_ANSWER if missed else Status.ACCEPTED,
        f"missed: {', '.join(missed)}" if missed else "all followed",
    )


def _reads(group: GroupContext, options: ConstraintOptions) -> float:
    constraints = group.check("constraints", Instructions).constraints
    variants = NUM_VARIANTS if options.mode is Mode.LOOSE else 1
    return variants * sum(one.reads for one in constraints)


def _has_instructions(task: Task, options: ConstraintOptions) -> None:
    task_check(task, "constraints", Instructions)


CONSTRAINTS = Verifier(_constraints, ConstraintOptions, _has_instructions, reads=_reads)
