"""Answers that a regular expression describes."""

from pydantic import BaseModel, ConfigDict, Field

from assay_reward.expressions import compiled, finds
from assay_reward.measurement import Candidate, Measured, Verifier, task_check
from assay_shared.config import Config
from assay_shared.types import Status, Task

_FIELD = "task.checks.pattern.pattern"


class Expected(BaseModel):
    """What `task.checks.pattern` says. `whole`: nothing may stand around it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pattern: str = Field(min_length=1)
    whole: bool = False


class PatternOptions(Config):
    """An answer on which the expression takes longer has no reward."""

    timeout_s: float = Field(default=1.0, gt=0, le=60)


async def _pattern(candidate: Candidate, options: PatternOptions) -> Measured:
    """1 if the expression is in the answer, or is the whole answer; else 0."""
    expected = candidate.sitting.check("pattern", Expected)
    found = await finds(
        compiled(expected.pattern, _FIELD),
        candidate.text,
        whole=expected.whole,
        timeout_s=options.timeout_s,
    )
    return Measured(float(found), Status.ACCEPTED if found else Status.WRONG_ANSWER)


def _has_pattern(task: Task, options: PatternOptions) -> None:
    compiled(task_check(task, "pattern", Expected).pattern, _FIELD)


PATTERN = Verifier(_pattern, PatternOptions, _has_pattern)
