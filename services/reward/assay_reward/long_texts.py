"""Measuring answers: short texts on the event loop, long texts in a worker process."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, cast

from assay_reward.instruments import ComponentUsage, Instruments
from assay_reward.rubric import ComponentConfig
from assay_reward.verifiers import VERIFIERS
from assay_reward.verifiers.verifier import AnswerContext, Found, GroupContext, Measurement
from assay_shared.answers.formulas.size import why_too_large
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import TooHard
from assay_shared.types import Answer, Failure, Status, Task

#: Longer answers are too hard for every verifier and are not measured.
MAX_LENGTH = 2**20
#: Characters measured on the event loop, which takes about a millisecond.
_AT_ONCE = 2**14
_MEASURE = "assay_reward.long_texts:measure_text"


def most_at_once(group: GroupContext, component: ComponentConfig) -> float:
    """Return the largest number of characters to measure on the event loop."""
    reads = component.kind.reads
    if reads is None:
        return MAX_LENGTH
    return _AT_ONCE / max(1.0, reads(group, component.parsed_options))


def start_measuring(
    candidate: AnswerContext, component: ComponentConfig, at_once: float
) -> Found | Awaitable[Found]:
    """Return the verifier's finding about an answer, or an awaitable of it.

    A text of more than `at_once` characters is measured in a worker process.

    Raises:
        TooHard: the answer is too long for any verifier, or takes too much time or memory.
    """
    num = candidate.num_characters
    if num <= at_once:
        return component.kind.measure(candidate, component.parsed_options)
    if num > MAX_LENGTH:
        raise TooHard(f"the answer has more than {MAX_LENGTH} characters")
    if len(candidate.text) > at_once:
        return _measure_apart(candidate, component)
    return component.kind.measure(candidate, component.parsed_options)


async def _measure_apart(candidate: AnswerContext, component: ComponentConfig) -> Measurement:
    assert isinstance(component.verifier, str)  # a user-defined reward never gets here
    instruments = candidate.instruments
    options = component.parsed_options.model_dump(mode="json")
    task = candidate.task.model_dump(mode="json", exclude={"tests", "environment", "history"})
    arguments = (component.verifier, options, task, candidate.text)
    found = await instruments.workers.call(_MEASURE, *arguments, cpu_s=instruments.cpu_s)
    value, outcome, detail = cast(tuple[float, str, str], found)
    return Measurement(value, Status(outcome), detail)


def measure_text(
    name: str, options: dict[str, Any], task: dict[str, Any], text: str
) -> tuple[float, str, str]:
    """Return a verifier's value, outcome and detail; runs in a worker process."""
    verifier = VERIFIERS[name]
    nobody = cast(Any, None)
    group = GroupContext(
        Task.model_validate(task), (Answer(text=text),), Instruments(nobody, nobody, _Here(0.0))
    )
    found = verifier.measure(
        group.candidate(0, ComponentUsage()), verifier.options.model_validate(options)
    )
    if not isinstance(found, Measurement | Failure):
        found = asyncio.run(cast(Coroutine[Any, Any, Measurement | Failure], found))
    assert isinstance(found, Measurement), "a verifier of texts measures or raises"
    return found.value, found.outcome, found.detail


class _Here(Symbolic):
    """A comparison of formulas in the current process, under its limits."""

    async def equal(self, answer: str, reference: str) -> bool:
        from assay_shared.answers.formulas.comparison import equal

        reason = why_too_large(answer)
        if reason is not None:
            raise TooHard(f"a formula that is too hard to compare: {reason}")
        return equal(answer, reference)
