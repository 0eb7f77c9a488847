"""What verifiers measure with, what they measure, and what they return."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar, cast

from pydantic import BaseModel

from assay_reward.instruments import ComponentUsage, Instruments
from assay_shared.errors import InternalFault, InvalidInput
from assay_shared.settings.run_file import Config
from assay_shared.settings.validation import validated
from assay_shared.telemetry.context import log_fields
from assay_shared.types import Answer, Failure, Status, Task

Options = TypeVar("Options", bound=Config)
Check = TypeVar("Check", bound=BaseModel)
Result = TypeVar("Result")


@dataclass(frozen=True)
class ValueRange:
    """The values that a verifier can give, both ends included."""

    low: float
    high: float

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    def clip(self, value: float) -> float:
        """Return the value, or the end of the span that it is beyond.

        Raises:
            InternalFault: it is not a number.
        """
        if self.low <= value <= self.high:
            return value
        if math.isnan(value):
            raise InternalFault("a value that is not a number")
        return min(max(value, self.low), self.high)


UNIT = ValueRange(0.0, 1.0)


class Measurement(NamedTuple):
    """A verifier's value for one answer, within its span, and what became of the answer."""

    value: float
    outcome: Status
    detail: str = ""


@dataclass
class GroupContext:
    """One group being scored. `admitted` are the answers whose gates hold, by index."""

    task: Task
    answers: tuple[Answer, ...]
    instruments: Instruments
    run: str = ""
    admitted: tuple[int, ...] = ()
    #: As in the request: one for each answer, or none.
    num_tokens: tuple[int, ...] = ()
    truncated: tuple[bool, ...] = ()
    _shared: dict[Hashable, asyncio.Future[Any]] = field(default_factory=dict)
    _checks: dict[str, BaseModel] = field(default_factory=dict)

    def candidate(self, index: int, meter: ComponentUsage) -> "AnswerContext":
        return AnswerContext(self, index, meter)

    def check(self, name: str, kind: type[Check]) -> Check:
        """As `task_check`, parsed once for all answers."""
        if name not in self._checks:
            self._checks[name] = task_check(self.task, name, kind)
        return cast(Check, self._checks[name])

    async def once(self, key: Hashable, measure: Callable[[], Awaitable[Result]]) -> Result:
        """The result of the first `measure` that came with `key`; the others share it."""
        if key not in self._shared:
            self._shared[key] = asyncio.ensure_future(measure())
        result: Result = await self._shared[key]
        return result


@dataclass(slots=True)
class AnswerContext:
    """One answer of a sitting, as one component sees it; what is used up is charged to `meter`."""

    sitting: GroupContext
    index: int
    meter: ComponentUsage

    @property
    def task(self) -> Task:
        return self.sitting.task

    @property
    def instruments(self) -> Instruments:
        return self.sitting.instruments

    @property
    def turns(self) -> tuple[str, ...]:
        """All that the policy said, oldest first."""
        answer = self.sitting.answers[self.index]
        return (answer,) if isinstance(answer, str) else answer

    @property
    def text(self) -> str:
        """The answer: of several turns the last."""
        return self.turns[-1]

    @property
    def num_characters(self) -> int:
        """Of all turns."""
        answer = self.sitting.answers[self.index]
        return len(answer) if isinstance(answer, str) else sum(map(len, answer))

    @property
    def num_tokens(self) -> int:
        """Only for verifiers that need lengths: nothing is measured without them."""
        return self.sitting.num_tokens[self.index]

    @property
    def is_truncated(self) -> bool:
        """Whether it is known that the answer was cut off at its token limit."""
        return bool(self.sitting.truncated) and self.sitting.truncated[self.index]

    async def once(self, measure: Callable[["AnswerContext"], Awaitable[Result]]) -> Result:
        """`measure` of this answer, done once however many components ask for it."""
        return await self.sitting.once((measure, self.index), lambda: measure(self))

    async def once_for_all(
        self, measure: Callable[[GroupContext, ComponentUsage], Awaitable[dict[int, Result]]]
    ) -> Result:
        """This answer's part of `measure`, which is done once for all admitted answers."""

        async def for_all() -> dict[int, Result]:
            with log_fields(sample=None):  # it is the group's, whoever asks first
                return await measure(self.sitting, self.meter)

        results = await self.sitting.once(measure, for_all)
        return results[self.index]


Found = Measurement | Failure


class NoOptions(Config):
    """For verifiers that have nothing to set."""


def _anything(task: Task, options: Any) -> None:
    return None


def lightly(sitting: GroupContext, options: Any) -> float:
    """A `Verifier.reads`: the text is read a few times."""
    return 1.0


@dataclass(frozen=True)
class Verifier(Generic[Options]):
    """How to measure one answer.

    `measure` returns what it finds, or an awaitable where it has to wait. Where it cannot tell, it
    returns a failure or raises an AssayError, and the answer has no reward. It raises TooHard for
    an answer that takes too much: a wrong one, unless the rubric says otherwise.
    `check` raises InvalidInput for a task that lacks what the verifier needs; nothing is measured
    then. `span` bounds the values by the options. `needs_lengths`: the request must say how many
    tokens each answer has.

    `reads` is for verifiers that need nothing but the task and the last text of the answer: how
    much work a character of the text is, beside a few readings by a regular expression. A text
    that is much work is measured in a worker process.
    """

    measure: Callable[[AnswerContext, Options], Found | Awaitable[Found]]
    options: type[Options]
    check: Callable[[Task, Options], None] = _anything
    span: Callable[[Options], ValueRange] = lambda _: UNIT
    needs_lengths: bool = False
    reads: Callable[[GroupContext, Options], float] | None = None


def task_check(task: Task, name: str, kind: type[Check]) -> Check:
    """What the task says for the verifier `name`, in the form that the verifier wants.

    Raises:
        InvalidInput: it is not there, or not in that form; names the field.
    """
    if name not in task.checks:
        raise InvalidInput(f"task {task.id} says nothing for {name}", field=f"task.checks.{name}")
    return validated(kind, task.checks[name], f"task.checks.{name}")


def reference_of(task: Task) -> str:
    """What an answer is compared with.

    Raises:
        InvalidInput: the task has neither a reference nor a gold answer, or an empty one.
    """
    reference = task.reference if task.reference is not None else task.gold
    if reference is None or not reference.strip():
        raise InvalidInput(f"task {task.id} has nothing to compare with", field="task.reference")
    return reference
