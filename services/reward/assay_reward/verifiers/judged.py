"""Answers decided by a judge. An abstention is a failure, never a zero."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from assay_reward.evidence import evidence_of_judgement
from assay_reward.instruments import ComponentUsage
from assay_reward.verifiers.verifier import AnswerContext, GroupContext, Measurement, Verifier
from assay_shared.errors import InvalidInput, JudgeFault
from assay_shared.settings.run_file import Config
from assay_shared.settings.validation import validated
from assay_shared.types import (
    Criteria,
    Criterion,
    Failure,
    JudgeForm,
    Judgement,
    JudgeRequest,
    Label,
    Status,
    Task,
    Verdict,
)

_VALUES = {Label.CORRECT: 1.0, Label.UNSURE: 0.0, Label.INCORRECT: 0.0}


class JudgeOptions(Config):
    """Options of a judge. `template` names a prompt of the judge service."""

    template: str | None = None


class GradedOptions(JudgeOptions):
    """Criteria to grade. An answer with a mean of at least `accepted_from` counts as right."""

    criteria: Annotated[Criteria, Field(min_length=1)]
    accepted_from: float = Field(default=0.75, gt=0, le=1)


@dataclass(frozen=True)
class AskJudge:
    """A request to the judge for all admitted answers, shared by equal components."""

    template: str | None = None
    criteria: tuple[Criterion, ...] = ()

    async def __call__(self, group: GroupContext, meter: ComponentUsage) -> dict[int, Judgement]:
        form = JudgeForm.GRADED if self.criteria else JudgeForm.BINARY
        return await judge(group, meter, group.admitted, form, self)


async def judge(
    group: GroupContext,
    meter: ComponentUsage,
    indices: Sequence[int],
    form: JudgeForm,
    ask: AskJudge,
) -> dict[int, Judgement]:
    """Return a single judge's judgements of these answers, by index, and note them as evidence.

    Raises:
        InvalidInput: the judge cannot be asked about this task or these answers.
        JudgeFault: the number of judgements differs from the number of answers.
    """
    task = group.task
    asked = {
        "question": task.prompt,
        "answers": tuple(group.candidate(index, meter).text for index in indices),
        "reference": task.reference or task.gold,
        "form": form,
        "criteria": ask.criteria,
        "template": ask.template,
        "domain": task.tags.get("domain", ""),
        "run": group.run,
    }
    request = validated(JudgeRequest, asked, "judge")
    response = await group.instruments.judge.judge(request)
    meter.charge(response.cost)
    if len(response.judgements) != len(indices):
        raise JudgeFault(
            f"{len(response.judgements)} judgements for {len(indices)} answers", service="judge"
        )
    judged = dict(zip(indices, response.judgements, strict=True))
    for index, judgement in judged.items():
        group.note(index, {}, evidence_of_judgement(judgement))
    return judged


async def _judge(candidate: AnswerContext, options: JudgeOptions) -> Measurement | Failure:
    """Return 1 for CORRECT, 0 for INCORRECT or UNSURE; the whole group has the same judge."""
    return decided(await candidate.once_for_all(AskJudge(options.template)))


def decided(judgement: Judgement) -> Measurement | Failure:
    """Return the measurement of a binary judgement, or the failure of an abstention.

    Raises:
        JudgeFault: the judgement has no label.
    """
    if not isinstance(judgement, Verdict):
        return judgement.failure
    label = judgement.label
    if label is None:
        raise JudgeFault("a binary judgement without a label", service="judge")
    outcome = Status.ACCEPTED if label is Label.CORRECT else Status.WRONG_ANSWER
    return Measurement(_VALUES[label], outcome, f"{label} by {judgement.judge}")


async def _graded(candidate: AnswerContext, options: GradedOptions) -> Measurement | Failure:
    """Return the weighted mean of the grades, each on its scale; a group has the same judge."""
    ask = AskJudge(options.template, options.criteria)
    judgement = await candidate.once_for_all(ask)
    if not isinstance(judgement, Verdict):
        return judgement.failure
    if judgement.score is None:
        raise JudgeFault("a graded judgement without a score", service="judge")
    right = judgement.score >= options.accepted_from
    grades = ", ".join(f"{name} {grade}" for name, grade in judgement.grades.items())
    return Measurement(
        judgement.score,
        Status.ACCEPTED if right else Status.WRONG_ANSWER,
        f"{grades} by {judgement.judge}",
    )


def _can_be_judged(task: Task, options: JudgeOptions) -> None:
    if not (task.prompt or task.reference or task.gold):
        raise InvalidInput("a judge needs a prompt or a reference", field="task.prompt")


JUDGE = Verifier(_judge, JudgeOptions, _can_be_judged)
GRADED = Verifier(_graded, GradedOptions, _can_be_judged)
