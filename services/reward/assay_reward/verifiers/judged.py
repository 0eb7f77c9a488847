"""Answers that a judge decides. An abstention is a failure, never a zero."""

from assay_reward.measurement import Measured, Sitting, or_failure
from assay_shared.types import (
    Failure,
    Judgement,
    JudgeRequest,
    Label,
    Status,
    Verdict,
)

_VALUES = {Label.CORRECT: 1.0, Label.UNSURE: 0.0, Label.INCORRECT: 0.0}


async def judged(sitting: Sitting) -> list[Measured | Failure]:
    """1 for CORRECT, 0 for INCORRECT and for UNSURE; the whole group has one judge."""
    task = sitting.task
    request = JudgeRequest(
        question=task.prompt, answers=sitting.answers, reference=task.reference or task.gold
    )
    response = await or_failure(sitting.instruments.judge.judge(request), "judge")
    if isinstance(response, Failure):
        return [response] * len(sitting.answers)
    return [_measure(judgement) for judgement in response.judgements]


def _measure(judgement: Judgement) -> Measured | Failure:
    if not isinstance(judgement, Verdict):
        return judgement.failure
    label = judgement.label
    assert label is not None, "a binary judgement has a label"
    outcome = Status.ACCEPTED if label is Label.CORRECT else Status.WRONG_ANSWER
    return Measured(_VALUES[label], outcome, f"{label} by {judgement.judge}")
