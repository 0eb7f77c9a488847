"""Pairs of a right and a wrong answer to the same question, judged in both orders."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

from assay_judge.calibration.bias import Winner
from assay_judge.calibration.examples import Example
from assay_judge.calibration.observations import MAX_IN_FLIGHT
from assay_shared.interfaces import Judge
from assay_shared.runtime.gather import gather
from assay_shared.types import JudgeForm, JudgeRequest, Verdict

MAX_PAIRS = 200
_WINNERS: dict[int | None, Winner] = {0: "A", 1: "B", None: "tie"}


def make_pairs(examples: Sequence[Example]) -> list[tuple[Example, Example]]:
    """Return at most `MAX_PAIRS` pairs of a question's right and wrong answers, first with first.

    Answer A is the right answer in every other pair.
    """
    right: dict[str, list[Example]] = defaultdict(list)
    wrong: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        (right if example.is_correct else wrong)[example.question].append(example)
    found = [pair for question in right for pair in zip(right[question], wrong[question])]  # noqa: B905
    turned = [pair[::-1] if number % 2 else pair for number, pair in enumerate(found)]
    return [(one, other) for one, other in turned[:MAX_PAIRS]]


async def judge_pairs(
    judge: Judge, pairs: Sequence[tuple[Example, Example]], on_done: Callable[[], None]
) -> list[tuple[Winner, Winner]]:
    """Return each pair's winner with A first and with B first, without pairs lacking a verdict."""
    room = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def one(pair: tuple[Example, Example]) -> tuple[Winner, Winner] | None:
        request = JudgeRequest(
            question=pair[0].question,
            answers=(pair[0].answer, pair[1].answer),
            reference=pair[0].reference,
            form=JudgeForm.PAIRWISE,
        )
        async with room:
            judgement = (await judge.judge(request)).judgements[0]
        on_done()
        if not isinstance(judgement, Verdict):
            return None
        first, second = judgement.choices
        return _WINNERS[first], _WINNERS[second]

    judged = await gather(one(pair) for pair in pairs)
    return [winners for winners in judged if winners is not None]
