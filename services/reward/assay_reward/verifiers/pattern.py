"""Answers that a regular expression describes."""

from collections.abc import Awaitable

from pydantic import BaseModel, ConfigDict, Field

from assay_reward.expressions import FINDS, compiled, finds_at_once
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
    """Processor time of the expression; an answer that takes more is too hard."""

    timeout_s: float = Field(default=1.0, gt=0, le=60)


def _pattern(candidate: Candidate, options: PatternOptions) -> Measured | Awaitable[Measured]:
    """1 if the expression is in the answer, or is the whole answer; else 0."""
    expected = candidate.sitting.check("pattern", Expected)
    found = finds_at_once(compiled(expected.pattern, _FIELD), candidate.text, whole=expected.whole)
    return _apart(candidate, expected, options) if found is None else _found(found)


async def _apart(candidate: Candidate, expected: Expected, options: PatternOptions) -> Measured:
    """The same in a worker process. Raises TooHard for an answer that takes too long there."""
    found = await candidate.instruments.workers.call(
        FINDS, expected.pattern, candidate.text, expected.whole, cpu_s=options.timeout_s
    )
    return _found(bool(found))


def _found(found: bool) -> Measured:
    return Measured(float(found), Status.ACCEPTED if found else Status.WRONG_ANSWER)


def _has_pattern(task: Task, options: PatternOptions) -> None:
    compiled(task_check(task, "pattern", Expected).pattern, _FIELD)


PATTERN = Verifier(_pattern, PatternOptions, _has_pattern)
