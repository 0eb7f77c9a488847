"""Pairs of a right and a wrong answer to the same question, judged in both orders."""

import json
from collections import defaultdict
from collections.abc import Sequence

from assay_judge.calibration.examples import Example
from assay_judge.calibration.log import PAIRS, JudgementLine, Winner
from assay_judge.calibration.observations import line_of
from assay_shared.interfaces import Judge
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


def name_of(pair: tuple[Example, Example]) -> str:
    """Return the id of a pair: the ids of both examples."""
    return json.dumps([one.id for one in pair])


async def ask_about_pair(judge: Judge, name: str, pair: tuple[Example, Example]) -> JudgementLine:
    """Compare a pair's answers in both orders; return its line of the log.

    The line has the winner with A first and with B first.
    """
    request = JudgeRequest(
        question=pair[0].question,
        answers=(pair[0].answer, pair[1].answer),
        reference=pair[0].reference,
        form=JudgeForm.PAIRWISE,
    )
    response = await judge.judge(request)
    line = line_of(response, name, PAIRS, name_of(pair))
    judgement = response.judgements[0]
    if not isinstance(judgement, Verdict):
        return line
    first, second = judgement.choices
    return line.model_copy(update={"winners": (_WINNERS[first], _WINNERS[second])})
