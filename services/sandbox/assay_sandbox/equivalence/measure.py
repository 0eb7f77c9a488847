"""Runs subjects both ways, compares the outcomes, and explains the differences."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from assay_sandbox.equivalence.plain import PlainPython
from assay_sandbox.equivalence.rules import Evidence, explain
from assay_sandbox.equivalence.slot import SlotPython
from assay_sandbox.equivalence.subjects import RunOutcome, Subject, aspects_that_differ
from assay_shared.types import Limits

_MAIN = re.compile(rb"/[\w./-]*main\.py")
_ADDRESS = re.compile(rb"0x[0-9a-f]+")
_TIME = re.compile(rb"\d+\.\d+ ?s\b")


@dataclass(frozen=True)
class Difference:
    """A subject with different outcomes in the two ways. `rule` names the known reason, if any."""

    subject: Subject
    plain: RunOutcome
    slot: RunOutcome
    aspects: tuple[str, ...]
    rule: str | None


@dataclass
class EquivalenceResult:
    """The result of a comparison. `num_by_set` counts subjects by data set and way."""

    num_by_set: dict[tuple[str, str], int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    #: Scripts with different texts in standard error: shown, but not counted as differences.
    other_stderr: list[tuple[Subject, RunOutcome, RunOutcome]] = field(default_factory=list)
    #: Number of judged programs by the place of grading.
    num_by_grading: dict[str, int] = field(default_factory=dict)

    @property
    def num_subjects(self) -> int:
        return sum(self.num_by_set.values())

    @property
    def unexplained(self) -> list[Difference]:
        return [one for one in self.differences if one.rule is None]


class EquivalenceRun:
    """Runs subjects both ways and compares them, a few subjects at once."""

    def __init__(self, plain: PlainPython, slot: SlotPython, limits: Limits) -> None:
        self._plain = plain
        self._slot = slot
        self._limits = limits

    async def measure(
        self,
        subjects: Sequence[Subject],
        jobs: int,
        seen: EquivalenceResult,
        on_subject: Callable[[], None] = lambda: None,
    ) -> EquivalenceResult:
        """Compare all subjects, `jobs` at once; add each to `seen` when done, and return `seen`."""
        waiting = iter(subjects)

        async def work() -> None:
            for subject in waiting:
                await self._compare(subject, seen)
                on_subject()

        async with asyncio.TaskGroup() as group:
            for _ in range(jobs):
                group.create_task(work())
        return seen

    async def _compare(self, subject: Subject, seen: EquivalenceResult) -> None:
        plain = await self._plain.run(subject)
        slot = await self._slot.run(subject)
        key = (subject.corpus, subject.way)
        seen.num_by_set[key] = seen.num_by_set.get(key, 0) + 1
        if slot.grading:
            seen.num_by_grading[slot.grading] = seen.num_by_grading.get(slot.grading, 0) + 1
        aspects = aspects_that_differ(plain, slot)
        if aspects:
            evidence = Evidence(subject, plain, slot, aspects, self._limits.cpu_time_s)
            rule = await explain(evidence, self._plain.repeat)
            seen.differences.append(Difference(subject, plain, slot, aspects, rule))
        elif subject.way == "script" and not plain.is_cut_short and _errors_differ(plain, slot):
            seen.other_stderr.append((subject, plain, slot))


def _errors_differ(plain: RunOutcome, slot: RunOutcome) -> bool:
    """Return True if standard error differs in more than folders, addresses and times."""
    texts = [
        _TIME.sub(b"0s", _ADDRESS.sub(b"0x", _MAIN.sub(b"main.py", one.stderr)))
        for one in (plain, slot)
    ]
    return texts[0] != texts[1]
