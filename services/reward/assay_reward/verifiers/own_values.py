"""Requests to a user-defined reward, and its replies, checked value by value."""

import json
import math
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from assay_reward.verifiers.verifier import ValueRange
from assay_shared.errors import RewardFault
from assay_shared.settings.run_file import Config
from assay_shared.types import AnswerText, Failure, FailureClass, Task

_MAX_DETAIL = 500
#: Sums of larger values might not be finite.
_MAX_VALUE = 1e12


class OwnValue(BaseModel):
    """A value with a detail, instead of a bare number."""

    model_config = ConfigDict(extra="forbid")

    value: float | None
    detail: str = ""


_ITEM: TypeAdapter[float | OwnValue | None] = TypeAdapter(float | OwnValue | None)


class OwnOptions(Config):
    """Range, limits and arguments of a user-defined reward."""

    #: The lowest allowed value; a lower value is a failure.
    low: float = Field(default=0.0, ge=-_MAX_VALUE, le=_MAX_VALUE)
    #: The highest allowed value; a higher value is a failure.
    high: float = Field(default=1.0, ge=-_MAX_VALUE, le=_MAX_VALUE)
    #: The lowest value of a right answer; by default `high`.
    accepted_from: float | None = Field(default=None, allow_inf_nan=False)
    #: Time limit of a call with all answers of a group, in seconds.
    timeout_s: float = Field(default=10.0, ge=0.01, le=600)
    #: Memory limit of the function's process and its children; not for a URL.
    memory_bytes: int = Field(default=2**30, ge=64 * 2**20, le=2**40)
    #: More arguments of the call, by name, after the task and the answers.
    arguments: dict[str, str | int | float | bool | None] = Field(default={}, max_length=32)

    @property
    def span(self) -> ValueRange:
        """The range of allowed values."""
        return ValueRange(self.low, self.high)

    def is_accepted(self, value: float) -> bool:
        """Return True if an answer with this value counts as right."""
        return value >= (self.high if self.accepted_from is None else self.accepted_from)


def write_call(task: Task, answers: Sequence[AnswerText], options: OwnOptions) -> bytes:
    """Return the request as JSON with `task`, `answers` and `arguments`."""
    call = {
        "task": task.model_dump(),
        "answers": answers,
        "arguments": options.arguments,
    }
    return json.dumps(call).encode()


def read_values(
    source: str, values: object, num_answers: int, span: ValueRange
) -> list[OwnValue | Failure]:
    """Return the reply's value for each answer; an invalid or out-of-range value is a failure.

    Raises:
        RewardFault: the reply is not a list with a value for each answer.
    """
    if not isinstance(values, list):
        raise RewardFault(f"{source}: gave no list of values")
    if len(values) != num_answers:
        number = "more" if len(values) > num_answers else str(len(values))
        raise RewardFault(f"{source}: gave {number} values for {num_answers} answers")
    return [_read_value(source, value, span) for value in values]


def _read_value(source: str, given: object, span: ValueRange) -> OwnValue | Failure:
    given = float(given) if isinstance(given, bool) else given
    try:
        item = _ITEM.validate_python(given, strict=True)
    except ValidationError:
        return _failure(f"{source}: gave {str(given)[:_MAX_DETAIL]!r}, which is not a value")
    found = item if isinstance(item, OwnValue) else OwnValue(value=item)
    if found.value is None:
        return _failure(f"{source}: gave no value. {found.detail[:_MAX_DETAIL]}".strip())
    if not math.isfinite(found.value):
        return _failure(f"{source}: gave {found.value}, which is not a finite number")
    if not span.low <= found.value <= span.high:
        return _failure(
            f"{source}: gave {found.value:g}, outside of {span.low:g} to {span.high:g}: "
            "set the options low and high"
        )
    return OwnValue(value=found.value, detail=found.detail[:_MAX_DETAIL])


def _failure(message: str) -> Failure:
    return Failure(
        failure_class=FailureClass.INTERNAL, service="reward", message=message, retryable=False
    )
