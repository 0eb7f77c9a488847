"""Answers with one value: equal to the reference as numbers, or else as formulas."""

import re

from assay_reward.measurement import Candidate, Measured, NoOptions, Verifier, reference_of
from assay_shared.errors import InvalidInput
from assay_shared.numbers import last_number, parse_number
from assay_shared.types import Status, Task

_MARKED = re.compile(r"####\s*(.+)")


def _has_value(task: Task, options: NoOptions) -> None:
    if final_value(reference_of(task)) is None:
        raise InvalidInput(f"task {task.id} has no value to compare with", field="task.reference")


async def _math(candidate: Candidate, options: NoOptions) -> Measured:
    """1 if the final value of an answer equals the reference's, else 0."""
    expected = final_value(reference_of(candidate.task))
    given = final_value(candidate.text)
    if given is None or expected is None:
        return Measured(0.0, Status.WRONG_ANSWER, "no value found")
    equal = same_number(given, expected)
    if equal is None:
        equal = await candidate.instruments.symbolic.equal(f"${given}$", f"${expected}$")
    outcome = Status.ACCEPTED if equal else Status.WRONG_ANSWER
    return Measured(float(equal), outcome, f"found {given[:80]}")


def final_value(text: str) -> str | None:
    """The last \\boxed{}, else what follows the last ####, else the last number, if any."""
    boxed = _last_boxed(text)
    if boxed is not None:
        return boxed
    marked = _MARKED.findall(text)
    if marked:
        return str(marked[-1]).strip()
    return last_number(text)


def _last_boxed(text: str) -> str | None:
    """The content of the last \\boxed{...}, braces balanced."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    for at in range(start + len("\\boxed"), len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + len("\\boxed{") : at].strip()
    return None


def same_number(one: str, other: str) -> bool | None:
    """Whether both are the same number; None if either is not plainly a number."""
    first, second = parse_number(one), parse_number(other)
    return None if first is None or second is None else first == second


MATH = Verifier(_math, NoOptions, _has_value)
