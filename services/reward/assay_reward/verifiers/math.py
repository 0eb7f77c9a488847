"""Answers with a single value: equal to the reference as numbers, as texts, or as formulas."""

from collections.abc import Awaitable

from assay_reward.verifiers.verifier import (
    AnswerContext,
    Measurement,
    NoOptions,
    Verifier,
    lightly,
    reference_of,
)
from assay_shared.answers.amounts import has_unknown_unit
from assay_shared.answers.equality import NeedsProof, settled
from assay_shared.answers.extraction import final_answer, whole_reference
from assay_shared.answers.formulas.latex import plain
from assay_shared.answers.question import asked_for
from assay_shared.answers.values.quantity import quantity_of
from assay_shared.types import Status, Task


def _has_value(task: Task, options: NoOptions) -> None:
    reference_of(task)


def _math(candidate: AnswerContext, options: NoOptions) -> Measurement | Awaitable[Measurement]:
    """Return 1 if the final value of an answer equals the reference's, else 0."""
    expected = whole_reference(reference_of(candidate.task))
    if candidate.text.strip() == expected:
        return Measurement(1.0, Status.ACCEPTED, "the reference itself")
    given = final_answer(candidate.text)
    if given is None:
        return Measurement(0.0, Status.WRONG_ANSWER, "no value found")
    expected = asked_for(expected, candidate.task.prompt, given)
    try:
        equal = settled(given, expected) is True
    except NeedsProof:
        return _as_formulas(candidate, given, expected)
    equal = equal and not _has_other_unit(candidate.text, given, expected)
    return _compared(equal, given, expected, "as values")


def _has_other_unit(text: str, given: str, expected: str) -> bool:
    """Return True if the reference has a unit, and the number in the answer has an unknown one."""
    wanted = quantity_of(plain(expected))
    if wanted is None or wanted.unit is None or not wanted.unit.is_known:
        return False
    found = quantity_of(plain(given))
    return found is not None and found.unit is None and has_unknown_unit(text, given)


async def _as_formulas(candidate: AnswerContext, given: str, expected: str) -> Measurement:
    equal = await candidate.instruments.symbolic.equal(given, expected)
    return _compared(equal, given, expected, "as formulas")


def _compared(equal: bool, given: str, expected: str, how: str) -> Measurement:
    outcome = Status.ACCEPTED if equal else Status.WRONG_ANSWER
    detail = f"found {given[:80]}, {'equals' if equal else 'not'} {expected[:80]} {how}"
    return Measurement(float(equal), outcome, detail)


MATH = Verifier(_math, NoOptions, _has_value, reads=lightly)
