"""Answers that a judge decides. An abstention is a failure, never a zero."""

from assay_reward.measurement import Candidate, Measured, Meter, NoOptions, Sitting, Verifier
from assay_shared.types import Failure, Judgement, JudgeRequest, Label, Status, Verdict

_VALUES = {Label.CORRECT: 1.0, Label.UNSURE: 0.0, Label.INCORRECT: 0.0}


async def judge_all(sitting: Sitting, meter: Meter) -> dict[int, Judgement]:
    """One judge's judgements of all admitted answers, by index."""
    task = sitting.task
    request = JudgeRequest(
        question=task.prompt,
        answers=tuple(sitting.candidate(index, meter).text for index in sitting.admitted),
        reference=task.reference or task.gold,
        domain=task.tags.get("domain", ""),
        run=sitting.run,
    )
    response = await sitting.instruments.judge.judge(request)
    meter.charge(response.cost)
    return dict(zip(sitting.admitted, response.judgements, strict=True))


async def _judge(candidate: Candidate, options: NoOptions) -> Measured | Failure:
    """1 for CORRECT, 0 for INCORRECT and for UNSURE; the whole group has one judge."""
    judgement = await candidate.once_for_all(judge_all)
    if not isinstance(judgement, Verdict):
        return judgement.failure
    label = judgement.label
    assert label is not None, "a binary judgement has a label"
    outcome = Status.ACCEPTED if label is Label.CORRECT else Status.WRONG_ANSWER
    return Measured(_VALUES[label], outcome, f"{label} by {judgement.judge}")


JUDGE = Verifier(_judge, NoOptions)
