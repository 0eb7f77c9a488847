"""Programs in rounds of feedback: the last program counts, and fewer rounds earn more."""

from pydantic import Field

from assay_reward.programs import has_tests
from assay_reward.verifiers.code import CodeOptions, RunTests, measured
from assay_reward.verifiers.verifier import AnswerContext, Measurement, ValueRange, Verifier
from assay_shared.types import Status


class RepairOptions(CodeOptions):
    """Bonus and penalties; rounds after `max_rounds` cost nothing more."""

    accepted_bonus: float = Field(default=0.2, ge=0, le=10)
    round_penalty: float = Field(default=0.05, ge=0, le=10)
    max_rounds: int = Field(default=8, ge=1, le=64)


async def _repair(candidate: AnswerContext, options: RepairOptions) -> Measurement:
    """Return pass_ratio + bonus * accepted - penalty * (rounds - 1) for the last program."""
    report = await candidate.once(RunTests(options.forgeable))
    accepted = report.status is Status.ACCEPTED
    rounds = min(len(candidate.turns), options.max_rounds)
    value = report.pass_ratio + options.accepted_bonus * accepted
    return measured(report, value - options.round_penalty * (rounds - 1))


def _span(options: RepairOptions) -> ValueRange:
    worst = options.round_penalty * (options.max_rounds - 1)
    return ValueRange(-worst, 1.0 + options.accepted_bonus)


REPAIR = Verifier(_repair, RepairOptions, has_tests, _span)
