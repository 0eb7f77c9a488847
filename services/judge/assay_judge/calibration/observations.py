"""A judge's labels on examples."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay_judge.calibration.examples import Example
from assay_shared.interfaces import Judge
from assay_shared.runtime.gather import gather
from assay_shared.types import Abstention, JudgeRequest, Label

#: Examples in flight for a judge at a time; its provider may allow fewer.
MAX_IN_FLIGHT = 64


@dataclass(frozen=True)
class Observation:
    """A judge's label on an example.

    After an abstention `label` is null and `remark` is the failure; otherwise `remark` is the
    judge's reason.
    """

    example: Example
    label: Label | None
    remark: str = ""
    template: str | None = None

    @property
    def is_decided(self) -> bool:
        return self.label is Label.CORRECT or self.label is Label.INCORRECT

    @property
    def says_correct(self) -> bool:
        return self.label is Label.CORRECT

    @property
    def is_right(self) -> bool:
        return self.label is self.example.label


async def observe(
    judge: Judge, examples: Sequence[Example], on_done: Callable[[Observation], None]
) -> list[Observation]:
    """Judge each example separately; return the observations in the examples' order.

    An abstention is an observation. Errors are raised.
    """
    room = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def one(example: Example) -> Observation:
        async with room:
            seen = await _ask(judge, example)
        on_done(seen)
        return seen

    return await gather(one(example) for example in examples)


async def _ask(judge: Judge, example: Example) -> Observation:
    request = JudgeRequest(
        question=example.question, answers=(example.answer,), reference=example.reference
    )
    (judgement,) = (await judge.judge(request)).judgements
    if isinstance(judgement, Abstention):
        return Observation(example, None, judgement.failure.message)
    return Observation(example, judgement.label, judgement.reason, judgement.template)
