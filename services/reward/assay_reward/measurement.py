"""What verifiers measure with, and what they return."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from assay_shared.errors import AssayError, to_failure
from assay_shared.interfaces import Judge, Sandbox
from assay_shared.symbolic import Symbolic
from assay_shared.together import together
from assay_shared.types import Failure, Status, Task, TestReport

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Measured:
    """A verifier's value for one answer, in [0, 1], and what became of the answer."""

    value: float
    outcome: Status
    detail: str = ""


@dataclass(frozen=True)
class Instruments:
    """The services and processes that verifiers ask."""

    sandbox: Sandbox
    judge: Judge
    symbolic: Symbolic


class Sitting:
    """One group being scored. What several verifiers need of it is asked for once."""

    def __init__(self, task: Task, answers: tuple[str, ...], instruments: Instruments) -> None:
        self.task = task
        self.answers = answers
        self.instruments = instruments
        self._reports: asyncio.Future[list[TestReport | Failure]] | None = None

    async def test_reports(
        self, run: Callable[["Sitting"], Awaitable[list[TestReport | Failure]]]
    ) -> list[TestReport | Failure]:
        """The sandbox's report on each answer; `run` is called by the first who asks."""
        if self._reports is None:
            self._reports = asyncio.ensure_future(run(self))
        return await self._reports


class Verifier(Protocol):
    """Measures all answers of a group; a failure stands for an answer it could not measure."""

    def __call__(self, sitting: Sitting) -> Awaitable[list[Measured | Failure]]: ...


async def or_failure(work: Awaitable[Answer], service: str) -> Answer | Failure:
    """The result of `work`, or the failure that prevented it."""
    try:
        return await work
    except AssayError as error:
        return to_failure(error, service)


async def each(
    sitting: Sitting, measure: Callable[[str], Awaitable[Answer]], service: str
) -> list[Answer | Failure]:
    """`measure` of every answer, side by side."""
    return await together(or_failure(measure(answer), service) for answer in sitting.answers)
