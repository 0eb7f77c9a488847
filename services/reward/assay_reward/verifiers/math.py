"""Answers with one value: equal to the reference as quantities, or else as formulas."""

from collections.abc import Awaitable

from assay_reward.extraction import last_boxed, last_marked
from assay_reward.measurement import (
    Candidate,
    Measured,
    NoOptions,
    Verifier,
    lightly,
    reference_of,
)
from assay_reward.quantity import last_quantity, parse_quantity
from assay_shared.errors import InvalidInput
from assay_shared.types import Status, Task


def _has_value(task: Task, options: NoOptions) -> None:
    if final_value(reference_of(task)) is None:
        raise InvalidInput(f"task {task.id} has no value to compare with", field="task.reference")


def _math(candidate: Candidate, options: NoOptions) -> Measured | Awaitable[Measured]:
    """1 if the final value of an answer equals the reference's, else 0."""
    expected = final_value(reference_of(candidate.task))
    given = final_value(candidate.text)
    if given is None or expected is None:
        return Measured(0.0, Status.WRONG_ANSWER, "no value found")
    equal = same_number(given, expected)
    if equal is None:
        return _as_formulas(candidate, given, expected)
    return _compared(equal, given)


async def _as_formulas(candidate: Candidate, given: str, expected: str) -> Measured:
    equal = await candidate.instruments.symbolic.equal(f"${given}$", f"${expected}$")
    return _compared(equal, given)


def _compared(equal: bool, given: str) -> Measured:
    outcome = Status.ACCEPTED if equal else Status.WRONG_ANSWER
    return Measured(float(equal), outcome, f"found {given[:80]}")


def final_value(text: str) -> str | None:
    """The last \\boxed{}, else what follows the last ####, else the last number, if any."""
    boxed = last_boxed(text)
    if boxed is not None:
        return boxed
    marked = last_marked(text)
    if marked is not None:
        return marked
    return last_quantity(text)


def same_number(one: str, other: str) -> bool | None:
    """Whether both are the same quantity; None if either is not plainly a number."""
    first, second = parse_quantity(one), parse_quantity(other)
    return None if first is None or second is None else first.equals(second)


MATH = Verifier(_math, NoOptions, _has_value, reads=lightly)
