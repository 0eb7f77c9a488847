"""A judge's labels on examples."""

from dataclasses import dataclass

from assay_judge.calibration.examples import Example
from assay_judge.calibration.log import JudgementLine
from assay_shared.interfaces import Judge
from assay_shared.types import Abstention, JudgeRequest, JudgeResponse, Label

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


async def ask_about(judge: Judge, name: str, what: str, example: Example) -> JudgementLine:
    """Judge an example in a pass; return its line of the log. Errors are raised."""
    request = JudgeRequest(
        question=example.question, answers=(example.answer,), reference=example.reference
    )
    response = await judge.judge(request)
    line = line_of(response, name, what, example.id)
    (judgement,) = response.judgements
    label = None if isinstance(judgement, Abstention) else judgement.label
    return line.model_copy(update={"gold": example.label, "label": label})


def line_of(response: JudgeResponse, judge: str, what: str, name: str) -> JudgementLine:
    """Return the line of a response without its verdict: its cost, and its reason or failure."""
    judgement = response.judgements[0]
    line = JudgementLine(
        judge=judge,
        pass_=what,
        id=name,
        num_requests=sum(attempt.num_requests for attempt in judgement.history),
        tokens=response.cost.judge_tokens,
        money=response.cost.money,
    )
    if isinstance(judgement, Abstention):
        failure = judgement.failure
        return line.model_copy(update={"remark": failure.message, "failure": failure.failure_class})
    return line.model_copy(update={"remark": judgement.reason, "template": judgement.template})
