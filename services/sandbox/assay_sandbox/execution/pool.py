"""A pool of slots: each slot runs a program at a time, and is rebuilt after a loss."""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass

from prometheus_client import Counter

from assay_sandbox.execution.run import Inputs, RunningProgram, RunResult, RunSpec, write_inputs
from assay_sandbox.execution.slot_daemon import DaemonClient, DaemonLost, Slot
from assay_sandbox.slot.confinement import cgroup
from assay_sandbox.slot.daemon import SlotConfig
from assay_shared.errors import SandboxFault
from assay_shared.runtime.fair_limiter import LimiterPlace

_log = logging.getLogger(__name__)

_RETRY_S = 0.2
#: Slots beyond `num_kept` end after this time without use.
_IDLE_S = 30.0
#: Give up on a program after this many lost slots, if the cause is not known.
_MAX_LOSSES = 3
#: After this many losses with no other cause in sight, the program is taken to end its slots.
_MAX_OWN_LOSSES = 2


class Pool:
    """Slots with the same packages. `num_kept` slots always exist; more are built when programs
    wait, and end when unused.
    """

    def __init__(
        self, python: str, config: SlotConfig, numbers: range, num_kept: int, rebuilt: Counter
    ) -> None:
        """Use `numbers` for the slots: two pools of a server must not share a number."""
        self._python = python
        self._config = config
        self._num_kept = num_kept
        self._max_slots = len(numbers)
        #: Unused slot numbers, the lowest last.
        self._spare = list(reversed(numbers))
        #: Used as a stack: the slot used last is taken next, since its memory is warm.
        self._free: list[Slot] = []
        self._waiting: deque[asyncio.Future[Slot]] = deque()
        self._num_alive = 0
        self._num_builds = 0
        self._building = asyncio.Lock()
        #: Sessions take it before `_building`, so at most one session is ahead of a program.
        self._holding = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._retiring: asyncio.TimerHandle | None = None
        self._daemon: DaemonClient | None = None
        self._is_closing = False
        self._rebuilt = rebuilt
        self._events_fd = cgroup.open_own_events()

    async def open(self) -> None:
        """Build the first `num_kept` slots.

        Raises:
            SandboxFault: the host does not grant this isolation; names the missing part.
        """
        for _ in range(self._num_kept):
            self._num_alive += 1
            self._put(await asyncio.to_thread(self._make, self._spare.pop()))

    def _make(self, number: int) -> Slot:
        """Return a new slot; start a new daemon if the old daemon is gone."""
        if self._daemon is not None:
            try:
                return self._daemon.make(number)
            except DaemonLost as error:
                _log.warning("%s: starting another", error)
                self._daemon.close()
                self._daemon = None
        self._daemon = DaemonClient(self._python, self._config)
        self._daemon.wait_until_ready()
        return self._daemon.make(number)

    async def play(
        self,
        plan: RunSpec,
        on_record: Callable[[RunningProgram, bytes], None],
        on_slot: Callable[[], None] = lambda: None,
        *,
        place: LimiterPlace | None = None,
    ) -> RunResult:
        """Run a plan in the next free slot and return the program's end.

        After a lost slot the program is run again: it has had no effect outside of the slot. After
        another such loss, the program is taken to have ended its slot. With a `channel` this holds
        from the first loss (see `RunResult.ended_its_slot`): the caller must run both ends again.

        Args:
            on_slot: called when the program gets a slot.
            place: lent to others while the program waits for something.

        Raises:
            SandboxFault: slots are lost by no fault of the program, or no slot takes it.
        """
        losses = Losses()
        for _ in range(self._max_slots + 1):
            evidence = self.evidence()
            slot, inputs = await self._take_for(plan)
            on_slot()
            run: RunningProgram | None = None
            try:
                on_rest = None if place is None else place.rest
                run = RunningProgram(
                    slot.socket, plan, on_record, plan.channel, inputs=inputs, on_rest=on_rest
                )
                return await run.finish()
            except SandboxFault as error:
                if run is not None and not run.is_slot_lost:
                    raise
                if run is not None and run.has_begun:
                    losses.add(is_own=evidence == self.evidence())
                    is_first_own = plan.channel is not None and losses.num_own
                    if losses.are_own or is_first_own:
                        return run.ending_of_lost_slot()
                    if losses.are_too_many or plan.channel is not None:
                        raise
                _log.warning("slot %d was lost: %s", slot.number, error)
            finally:
                slot.is_lost = run is None or run.is_slot_lost
                self._give_back(slot)
                if place is not None:
                    place.rest(False)
        raise SandboxFault("no slot takes a program")

    def evidence(self) -> tuple[object, ...]:
        """Return a value to compare later: it changes when slots are lost for another reason than a
        program. Such reasons are the daemon's death and an OOM kill around all slots.
        """
        is_daemon_gone = self._daemon is None or self._daemon.has_ended
        killed = None if self._events_fd is None else cgroup.num_killed(self._events_fd)
        return self._daemon, is_daemon_gone, killed

    async def _take_for(self, plan: RunSpec) -> tuple[Slot, Inputs]:
        inputs = await write_inputs(plan)
        try:
            return await self._take(), inputs
        except BaseException:
            inputs.close()
            raise

    async def _take(self) -> Slot:
        """Return a free slot, or build it if there is none. First come, first served."""
        if self._free:
            slot = self._free.pop()
            if not self._free and not self._num_builds and self._spare:
                self._start_build(self._spare.pop())  # ready by the time the next program comes
            return slot
        turn: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if self._spare and self._num_builds < len(self._waiting):
            self._start_build(self._spare.pop())
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._put(turn.result())
            raise

    def _put(self, slot: Slot) -> None:
        """Hand a clean slot to the next waiting program, or keep it free."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(slot)
                return
        slot.free_since = time.monotonic()
        self._free.append(slot)
        if self._num_alive > self._num_kept and self._retiring is None:
            self._retiring = asyncio.get_running_loop().call_later(_IDLE_S, self._retire)

    def _give_back(self, slot: Slot) -> None:
        if not slot.is_lost and self._config.isolation != "single_use":
            self._put(slot)
            return
        slot.socket.close()
        self._num_alive -= 1
        if self._num_alive < self._num_kept or self._num_builds < len(self._waiting):
            self._rebuilt.inc()
            self._start_build(slot.number)
        else:
            self._start(self._end(slot.number))

    def _retire(self) -> None:
        """End the unused slots beyond `num_kept`."""
        self._retiring = None
        now = time.monotonic()
        while self._num_alive > self._num_kept and self._free:
            slot = self._free[0]
            left_s = slot.free_since + _IDLE_S - now
            if left_s > 0:
                self._retiring = asyncio.get_running_loop().call_later(left_s, self._retire)
                return
            del self._free[0]
            slot.socket.close()
            self._num_alive -= 1
            self._start(self._end(slot.number))

    async def hold(self, number: int) -> Slot:
        """Build a slot outside of the pool, for a single holder, and return it.

        Raises:
            SandboxFault: the host does not grant it.
        """
        async with self._holding, self._building:
            return await asyncio.to_thread(self._make, number)

    async def let_go(self, number: int) -> None:
        """End a held slot."""
        async with self._holding:
            await self._end_in_daemon(number)

    async def _end(self, number: int) -> None:
        """End a slot of the pool and free its number."""
        await self._end_in_daemon(number)
        self._spare.append(number)

    async def _end_in_daemon(self, number: int) -> None:
        async with self._building:
            if self._daemon is not None:
                with suppress(DaemonLost):
                    await asyncio.to_thread(self._daemon.end, number)

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _start_build(self, number: int) -> None:
        self._num_alive += 1
        self._num_builds += 1
        self._start(self._build(number))

    async def _build(self, number: int) -> None:
        """Retry until the slot is built or unneeded: a host short of memory or disk may recover."""
        while not self._is_closing and self._is_wanted():
            async with self._building:
                try:
                    slot = await asyncio.to_thread(self._make, number)
                except SandboxFault as error:
                    _log.error("slot %d cannot be built: %s", number, error)
                else:
                    self._num_builds -= 1
                    self._put(slot)
                    return
            await asyncio.sleep(_RETRY_S)
        self._num_builds -= 1
        self._num_alive -= 1
        self._spare.append(number)

    def _is_wanted(self) -> bool:
        return self._num_alive <= self._num_kept or bool(self._waiting) or not self._free

    async def close(self) -> None:
        """End all slots."""
        self._is_closing = True
        if self._retiring is not None:
            self._retiring.cancel()
        # Wait: a build in progress runs in a thread and cannot be cancelled.
        await asyncio.gather(*self._tasks)
        for slot in self._free:
            slot.socket.close()
        self._free.clear()
        if self._daemon is not None:
            await asyncio.to_thread(self._daemon.close)
        if self._events_fd is not None:
            os.close(self._events_fd)
            self._events_fd = None


@dataclass
class Losses:
    """Counts of the slots lost under a program after it had begun."""

    num_all: int = 0
    num_own: int = 0

    def add(self, *, is_own: bool) -> None:
        self.num_all += 1
        self.num_own += is_own

    @property
    def are_own(self) -> bool:
        """True if the program is taken to end its slots."""
        return self.num_own >= _MAX_OWN_LOSSES

    @property
    def are_too_many(self) -> bool:
        return self.num_all >= _MAX_LOSSES
