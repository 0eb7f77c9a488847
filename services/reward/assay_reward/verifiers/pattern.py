"""Answers matched by a regular expression."""

from collections.abc import Awaitable

from pydantic import BaseModel, ConfigDict, Field

from assay_reward.answers.regex import FINDS, compiled, finds_at_once
from assay_reward.verifiers.verifier import AnswerContext, Measurement, Verifier, task_check
from assay_shared.settings.run_file import Config
from assay_shared.types import Status, Task

_FIELD = "task.checks.pattern.pattern"


class Expected(BaseModel):
    """The check `task.checks.pattern`. With `whole`, the match must be the whole answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pattern: str = Field(min_length=1)
    whole: bool = False


class PatternOptions(Config):
    """Processor time of the expression, in seconds; a slower answer is too hard."""

    timeout_s: float = Field(default=1.0, gt=0, le=60)


def _pattern(
    candidate: AnswerContext, options: PatternOptions
) -> Measurement | Awaitable[Measurement]:
    """Return 1 if the expression matches a part of the answer (all for `whole`), else 0."""
    expected = candidate.group.check("pattern", Expected)
    found = finds_at_once(compiled(expected.pattern, _FIELD), candidate.text, whole=expected.whole)
    return _apart(candidate, expected, options) if found is None else _found(found)


async def _apart(
    candidate: AnswerContext, expected: Expected, options: PatternOptions
) -> Measurement:
    """Match in a worker process. Raises TooHard for an answer over its time limit."""
    found = await candidate.instruments.workers.call(
        FINDS, expected.pattern, candidate.text, expected.whole, cpu_s=options.timeout_s
    )
    return _found(bool(found))


def _found(found: bool) -> Measurement:
    return Measurement(float(found), Status.ACCEPTED if found else Status.WRONG_ANSWER)


def _has_pattern(task: Task, options: PatternOptions) -> None:
    compiled(task_check(task, "pattern", Expected).pattern, _FIELD)


PATTERN = Verifier(_pattern, PatternOptions, _has_pattern)
