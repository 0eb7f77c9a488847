"""The interface of verifiers: the context of an answer, options and measurements."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar, cast

from pydantic import BaseModel, JsonValue

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
    """The range of a verifier's values, both ends included."""

    low: float
    high: float

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    def clip(self, value: float) -> float:
        """Return the value, or the nearer end of the range for a value outside.

        Raises:
            InternalFault: the value is not a number.
        """
        if self.low <= value <= self.high:
            return value
        if math.isnan(value):
            raise InternalFault("a value that is not a number")
        return min(max(value, self.low), self.high)


UNIT = ValueRange(0.0, 1.0)


class Measurement(NamedTuple):
    """A verifier's value for an answer, within its range, and the answer's outcome."""

    value: float
    outcome: Status
    detail: str = ""


@dataclass
class GroupContext:
    """A group in scoring; `rejected` are the indices of the answers rejected by a gate so far.

    `measures` and `evidence` are what verifiers noted of answers, by index.
    """

    task: Task
    answers: tuple[Answer, ...]
    instruments: Instruments
    run: str = ""
    rejected: set[int] = field(default_factory=set)
    measures: dict[int, dict[str, float]] = field(default_factory=dict)
    evidence: dict[int, dict[str, JsonValue]] = field(default_factory=dict)
    _shared: dict[Hashable, asyncio.Future[Any]] = field(default_factory=dict)
    _checks: dict[str, BaseModel] = field(default_factory=dict)

    @property
    def admitted(self) -> tuple[int, ...]:
        """The indices of the answers past all gates so far, in order."""
        return tuple(i for i in range(len(self.answers)) if i not in self.rejected)

    def candidate(self, index: int, meter: ComponentUsage) -> "AnswerContext":
        return AnswerContext(self, index, meter)

    def note(
        self, index: int, measures: Mapping[str, float], evidence: Mapping[str, JsonValue]
    ) -> None:
        """Add numbers and evidence to an answer's reward, or to the failure in its place."""
        self.measures.setdefault(index, {}).update(measures)
        self.evidence.setdefault(index, {}).update(evidence)

    def check(self, name: str, kind: type[Check]) -> Check:
        """Return the result of `task_check`, parsed once for all answers."""
        if name not in self._checks:
            self._checks[name] = task_check(self.task, name, kind)
        return cast(Check, self._checks[name])

    async def once(self, key: Hashable, measure: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of the first `measure` for `key`; later calls share it."""
        if key not in self._shared:
            self._shared[key] = asyncio.ensure_future(measure())
        result: Result = await self._shared[key]
        return result


@dataclass(slots=True)
class AnswerContext:
    """An answer of a group, as seen by a component; costs are charged to `meter`."""

    group: GroupContext
    index: int
    meter: ComponentUsage

    @property
    def task(self) -> Task:
        return self.group.task

    @property
    def instruments(self) -> Instruments:
        return self.group.instruments

    @property
    def turns(self) -> tuple[str, ...]:
        """All turns of the policy, oldest first."""
        return self.group.answers[self.index].turns

    @property
    def text(self) -> str:
        """The answer's last turn."""
        return self.turns[-1]

    @property
    def num_characters(self) -> int:
        """The number of characters in all turns."""
        return sum(map(len, self.turns))

    @property
    def num_tokens(self) -> int:
        """The number of sampled tokens; only for verifiers with `needs_lengths`."""
        num_tokens = self.group.answers[self.index].num_tokens
        assert num_tokens is not None, "checked before any work"
        return num_tokens

    @property
    def is_truncated(self) -> bool:
        """True if the answer is known to be cut off at its token limit."""
        return bool(self.group.answers[self.index].truncated)

    async def once(self, measure: Callable[["AnswerContext"], Awaitable[Result]]) -> Result:
        """Return the result of `measure` for this answer, run once for all components."""
        return await self.group.once((measure, self.index), lambda: measure(self))

    async def once_for_all(
        self, measure: Callable[[GroupContext, ComponentUsage], Awaitable[dict[int, Result]]]
    ) -> Result:
        """Return this answer's part of `measure`, run once for all admitted answers."""

        async def for_all() -> dict[int, Result]:
            with log_fields(sample=None):  # the work is for the group, not for a sample
                return await measure(self.group, self.meter)

        results = await self.group.once(measure, for_all)
        return results[self.index]


Found = Measurement | Failure


class NoOptions(Config):
    """Options of verifiers without settings."""


def _anything(task: Task, options: Any) -> None:
    return None


def lightly(group: GroupContext, options: Any) -> float:
    """Return 1, for a text read only a few times; a `Verifier.reads`."""
    return 1.0


@dataclass(frozen=True)
class Verifier(Generic[Options]):
    """A way to measure an answer.

    `measure` returns its finding, or an awaitable of it. If it cannot decide, it returns a failure
    or raises an AssayError, and the answer has no reward. It raises TooHard for an answer beyond
    its limits; such an answer is wrong, unless the rubric says otherwise.
    `check` raises InvalidInput for a task without the data of the verifier; then nothing is
    measured. `span` returns the range of values for the options. With `needs_lengths`, the request
    must give the number of tokens of each answer.

    `reads` is for verifiers of nothing but the task and the answer's last text. It returns the
    work per character; 1 is the work of a few readings by a regular expression. A text with too
    much work is measured in a worker process.

    `inner` is for verifiers of an answer inside the answer. It returns the task that scores the
    inner answer, and that task is checked before any work too.
    """

    measure: Callable[[AnswerContext, Options], Found | Awaitable[Found]]
    options: type[Options]
    check: Callable[[Task, Options], None] = _anything
    span: Callable[[Options], ValueRange] = lambda _: UNIT
    needs_lengths: bool = False
    reads: Callable[[GroupContext, Options], float] | None = None
    inner: Callable[[Task], Task] | None = None


def task_check(task: Task, name: str, kind: type[Check]) -> Check:
    """Return the task's check for the verifier `name`, parsed as `kind`.

    Raises:
        InvalidInput: the check is missing or malformed; names the field.
    """
    if name not in task.checks:
        keys = ", ".join(kind.model_fields)
        raise InvalidInput(
            f"task {task.id} has no check for {name}",
            field=f"task.checks.{name}",
            hint=f"an object with the keys {keys}",
        )
    return validated(kind, task.checks[name], f"task.checks.{name}")


def reference_of(task: Task) -> str:
    """Return the task's reference, or else its gold answer.

    Raises:
        InvalidInput: the task has neither a reference nor a gold answer, or an empty one.
    """
    reference = task.reference if task.reference is not None else task.gold
    if reference is None or not reference.strip():
        raise InvalidInput(f"task {task.id} has nothing to compare with", field="task.reference")
    return reference
