"""The judge's choice between two answers, asked in both orders."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from assay_shared.errors import AssayError, JudgeFault
from assay_shared.interfaces import Judge
from assay_shared.runtime.gather import gather
from assay_shared.statistics.interval import Interval, wilson_bounds
from assay_shared.types import JudgeForm, JudgeRequest, Verdict

_IN_FLIGHT = 16
CONFIDENCE = 0.95
#: The request of a pair is made again for a failure that may pass.
_ATTEMPTS = 3
_MOST_REASON = 200


@dataclass(frozen=True)
class AskedPair:
    """Two answers to a question; the label says that the first is better."""

    question: str
    chosen: str
    rejected: str
    reference: str | None = None


class LabelFinding(StrEnum):
    """What the judge says of a label. Its two orders must say the same, or it is `undecided`."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"
    FAILED = "failed"


@dataclass(frozen=True)
class JudgedPair:
    """A pair's agreement, and how often the judge chose the answer shown first, of its choices."""

    agreement: LabelFinding
    num_first: int = 0
    num_choices: int = 0
    #: Why it has failed.
    reason: str = ""


def read_choices(choices: Sequence[int | None]) -> JudgedPair:
    """Return what the choices of both orders, (0, 1) and (1, 0), come to.

    Raises:
        JudgeFault: there are not two.
    """
    if len(choices) != 2:
        raise JudgeFault(f"{len(choices)} choices for two orders", service="judge")
    firsts = [one == shown for shown, one in enumerate(choices) if one is not None]
    agreement = LabelFinding.UNDECIDED
    if choices[0] == choices[1] and choices[0] is not None:
        agreement = LabelFinding.DISAGREES if choices[0] else LabelFinding.AGREES
    return JudgedPair(agreement, sum(firsts), len(firsts))


async def judge_pairs(
    judge: Judge, pairs: Sequence[AskedPair], on_done: Callable[[], None] = lambda: None
) -> list[JudgedPair]:
    """Return what the judge says of each pair, in order; a pair without a verdict has failed."""
    room = asyncio.Semaphore(_IN_FLIGHT)

    async def one(pair: AskedPair) -> JudgedPair:
        async with room:
            found = await _judged(judge, pair)
        on_done()
        return found

    return list(await gather(one(pair) for pair in pairs))


async def _judged(judge: Judge, pair: AskedPair) -> JudgedPair:
    try:
        request = JudgeRequest(
            question=pair.question,
            answers=(pair.chosen, pair.rejected),
            reference=pair.reference,
            form=JudgeForm.PAIRWISE,
        )
    except ValueError:
        return failed_pair("its texts cannot be sent to the judge")
    reason = ""
    for _ in range(_ATTEMPTS):
        try:
            judgement = (await judge.judge(request)).judgements[0]
        except AssayError as error:
            reason = error.message
            if not error.retryable:
                break
            continue
        if isinstance(judgement, Verdict):
            return read_choices(judgement.choices)
        reason = judgement.failure.message
        if not judgement.failure.retryable:
            break
    return failed_pair(reason)


def failed_pair(reason: str) -> JudgedPair:
    """Return an unchecked pair, with the reason."""
    return JudgedPair(LabelFinding.FAILED, reason=reason[:_MOST_REASON])


def judged_numbers(judged: Sequence[JudgedPair]) -> dict[str, Any]:
    """Return the shares of judged pairs with intervals.

    `label_agreement` is of the pairs that both orders decide. A judge that always takes the first
    place decides none, and has `first_choice` 1; one without such a bias has 0.5.
    """
    counts = {name: sum(one.agreement is name for one in judged) for name in LabelFinding}
    decided = counts[LabelFinding.AGREES] + counts[LabelFinding.DISAGREES]
    undecided = counts[LabelFinding.UNDECIDED]
    firsts = [one.num_first / one.num_choices for one in judged if one.num_choices]
    return {
        "label_agreement": share_of(counts[LabelFinding.AGREES], decided),
        "first_choice": share_of(sum(firsts), len(firsts)),
        "undecided": share_of(undecided, decided + undecided),
        "judged": {str(name): number for name, number in counts.items()},
    }


def share_of(number: float, total: int) -> dict[str, float] | None:
    """Return a share with Wilson's interval as metrics.json has it; null of nothing."""
    if not total:
        return None
    share = number / total
    return as_number(Interval(share, *wilson_bounds(share, total, CONFIDENCE)))


def as_number(found: Interval | None) -> dict[str, float] | None:
    """Return an interval as metrics.json has it; null if nothing was measured."""
    return None if found is None else {"value": found.value, "low": found.low, "high": found.high}
