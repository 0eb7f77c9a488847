"""Playing a set: a number of its units at once, each stored as soon as it is scored."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from assay_shared.errors import BudgetExceeded, InvalidInput
from assay_shared.runtime.gather import gather
from assay_shared.types import Failure, Task
from assay_trainer.evaluate.answers.likelihood import OptionReader, read_task
from assay_trainer.evaluate.playing.player import UnitPlayer
from assay_trainer.evaluate.playing.repair import play_repair
from assay_trainer.evaluate.playing.units import next_of_budget, units_of
from assay_trainer.evaluate.playing.votes import settle_votes, with_votes
from assay_trainer.evaluate.sets import OpenSet
from assay_trainer.evaluate.store import EvaluationStore
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import SampleRecord

#: If this number of first requests fail by the same error that no retry helps, all would, unless
#: one in flight has an answer.
_FIRST_REQUESTS = 8
#: Some work of a set; it returns once its samples are stored.
Work = Callable[[], Awaitable[None]]


@dataclass
class SetProgress:
    """Numbers of a set's tasks for people."""

    num_tasks: int
    num_done: int = 0
    num_samples: int = 0
    num_failed: int = 0
    #: Why the last sample without a score has none.
    last_failure: str = ""


@dataclass
class SetPlay:
    """The play of a set. `on_progress` is called after each change of the numbers."""

    opened: OpenSet
    store: EvaluationStore
    protocol: Protocol
    #: Null for `likelihood`, which has a reader.
    player: UnitPlayer | None
    reader: OptionReader | None
    concurrency: int
    #: This number of requests in a row without a score ends the command. Of a server, each sample
    #: is a request; else each unit is.
    max_failed: int
    on_progress: Callable[[SetProgress], None]
    #: First requests that all fail alike end the command too.
    ends_alike: bool = True
    progress: SetProgress = field(init=False)
    _failed_in_a_row: int = 0
    #: The tasks of these requests.
    _failed_tasks: set[str] = field(default_factory=set)
    #: The failure of every request so far, if it is the same and a retry cannot help.
    _same_failure: Failure | None = None
    _has_other: bool = False
    #: Works that have begun and not ended.
    _num_in_flight: int = 0
    #: Set for a moment when requests have come back: wakes all that wait.
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def play(self) -> None:
        """Play what is missing, and store the seconds that it took.

        Raises:
            BudgetExceeded: `max_failed` requests in a row have no score: something is down.
            InvalidInput: the first requests all failed alike, by an error that no retry helps.
            OSError: samples could not be stored.
        """
        name = self.opened.name
        stored = self.store.usable_samples(name)
        self.progress = SetProgress(len(self.opened.tasks))
        self._has_other = any(stored.values()) or not self.ends_alike
        before, started = self.store.facts(name).played_s, time.monotonic()
        works = self._works(stored)
        self.on_progress(self.progress)  # its clock runs before the first answer comes

        async def work_on() -> None:
            for work in works:
                self._num_in_flight += 1
                await work()
                self._num_in_flight -= 1
                self.store.add_time(name, before + time.monotonic() - started)
                await self._refuse_same()

        try:
            await gather(work_on() for _ in range(self.concurrency))
            if self.protocol.kind is ProtocolKind.MAJORITY:
                settle_votes(self.store, self.opened)
        finally:
            self.store.add_time(name, before + time.monotonic() - started, now=True)

    def _works(self, stored: dict[str, dict[int, SampleRecord]]) -> Iterator[Work]:
        """Yield the work that is left; tasks without any count as done."""
        kind = self.protocol.kind
        for place, task in enumerate(self.opened.tasks):
            known = stored[task.id]
            self.progress.num_samples += len(known)
            if kind is ProtocolKind.BUDGET:
                yield self._budget(task, place, list(known.values()))
            elif kind is ProtocolKind.LIKELIHOOD:
                if not known:
                    yield self._read(task)
                else:
                    self._done()
            else:
                yield from self._units(task, place, known)

    def _units(self, task: Task, place: int, known: dict[int, SampleRecord]) -> Iterator[Work]:
        units = list(units_of(task, place, known, self.protocol))
        left = len(units)
        if not units:
            self._done()

        async def play(number: int) -> None:
            nonlocal left
            assert self.player is not None
            playing = play_repair if self.protocol.kind is ProtocolKind.REPAIR else UnitPlayer.play
            samples, scorer = await playing(self.player, units[number])
            missing = [one for one in samples if one.index not in known]
            if self.protocol.kind is ProtocolKind.MAJORITY:
                missing = with_votes(task, missing, [one.vote for one in known.values()])
            self._add(missing, scorer)
            left -= 1
            if left == 0:
                self._done()

        for number in range(len(units)):
            yield lambda number=number: play(number)  # type: ignore[misc]

    def _budget(self, task: Task, place: int, known: list[SampleRecord]) -> Work:
        async def play() -> None:
            assert self.player is not None
            while (unit := next_of_budget(task, place, known, self.protocol)) is not None:
                (sample,), scorer = await self.player.play(unit)
                (sample,) = self._add([sample], scorer)
                if sample.failure is not None:
                    break
                known.append(sample)
            self._done()

        return play

    def _read(self, task: Task) -> Work:
        async def read() -> None:
            assert self.reader is not None
            self._add([await read_task(task, self.protocol, self.reader)], "")
            self._done()

        return read

    def _done(self) -> None:
        self.progress.num_done += 1
        self.on_progress(self.progress)

    def _add(self, samples: list[SampleRecord], scorer: str) -> list[SampleRecord]:
        """Store samples and return them as stored.

        Raises:
            BudgetExceeded: `max_failed` requests in a row have no score.
        """
        samples = self.store.add_samples(self.opened.name, samples, scorer)
        failures = [one.failure for one in samples if one.failure is not None]
        self.progress.num_samples += len(samples)
        self.progress.num_failed += len(failures)
        if failures:
            self.progress.last_failure = f"{failures[-1].service}: {failures[-1].message}"
        self.on_progress(self.progress)
        if len(failures) < len(samples) or not samples:
            self._failed_in_a_row, self._has_other = 0, True
            self._failed_tasks.clear()
            self._tell()
            return samples
        asks_each = self.player is not None and self.player.answering.asks_each
        self._failed_in_a_row += len(failures) if asks_each else 1
        self._failed_tasks.update(one.task_id for one in samples)
        self._note_same(failures)
        if not self._do_fail_alike and self._is_down(self.max_failed):
            raise BudgetExceeded(
                f"{self._failed_in_a_row} requests in a row have no score: "
                f"{failures[-1].service}: {failures[-1].message}",
                hint="the same command resumes",
            )
        return samples

    def _is_down(self, most: int) -> bool:
        """Return True if `most` requests in a row have failed, and not of one task alone.

        A task that a server always refuses could otherwise end the command by its many samples.
        """
        return self._failed_in_a_row >= most and len(self._failed_tasks) >= min(2, most)

    def _tell(self) -> None:
        self._news.set()
        self._news.clear()

    def _note_same(self, failures: list[Failure]) -> None:
        same = self._same_failure or failures[0]
        self._has_other |= any(
            one.retryable or (one.service, one.message) != (same.service, same.message)
            for one in failures
        )
        self._same_failure = same

    @property
    def _do_fail_alike(self) -> bool:
        """True if enough first requests have failed by one error, and none did otherwise."""
        return not self._has_other and self._is_down(_FIRST_REQUESTS)

    async def _refuse_same(self) -> None:
        """End a set whose first requests all fail alike, by an error that no retry helps.

        Nothing else is asked for until those in flight have come back: one may have an answer.

        Raises:
            InvalidInput: at least eight requests have failed, and none did otherwise.
        """
        self._tell()
        while self._do_fail_alike and self._num_in_flight:
            await self._news.wait()
        if self._do_fail_alike and self._same_failure is not None:
            raise InvalidInput(
                f"the first {self._failed_in_a_row} requests of {self.opened.name} failed alike: "
                f"{self._same_failure.service}: {self._same_failure.message}",
                hint="once it is corrected, the same command resumes; with --max-failed, that "
                "number alone decides",
            )
