"""Sleeping programs lend their permit to others, and no client's sleepers take all slots."""

import asyncio
import math
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import TypeVar

import pytest

from assay_sandbox.sandbox import LocalSandbox
from assay_shared.runtime.fair_limiter import FairLimiter, LimiterPlace
from assay_shared.telemetry.context import client_scope
from assay_shared.types import (
    AssertCase,
    ExecutionRequest,
    ExecutionResult,
    SessionRequest,
    Status,
    TestRequest,
)
from tests.unit.sandbox.conftest import MakeSandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLEEP = "import time\ntime.sleep({})\nprint('slept')"
BURN = "import time\nwhile time.process_time() < {}: pass\nprint('burnt')"


async def run(sandbox: LocalSandbox, client: str, code: str) -> tuple[ExecutionResult, float]:
    """The result, and how long its client waited for it."""
    started = time.monotonic()
    with client_scope(client):
        result = await sandbox.execute(ExecutionRequest(code=code))
    return result, time.monotonic() - started


T = TypeVar("T")


def start(work: Coroutine[object, object, T]) -> "asyncio.Task[T]":
    return asyncio.create_task(work)


@pytest.mark.slow
async def test_sleepers_of_one_client_do_not_keep_anothers_program_waiting(
    make_sandbox: MakeSandbox,
) -> None:
    sandbox = await make_sandbox(sandbox_slots=2)
    sleepers = [start(run(sandbox, "sleeper", SLEEP.format(3))) for _ in range(20)]
    await asyncio.sleep(1.0)
    assert sandbox.num_sleeping > 2
    result, waited_s = await run(sandbox, "other", "print(1)")
    assert (result.stdout, result.status) == ("1\n", Status.ACCEPTED)
    assert waited_s < 1.0
    assert not any(one.done() for one in sleepers)
    for result, _ in await asyncio.gather(*sleepers):
        assert result.stdout == "slept\n"
    assert (sandbox.num_running, sandbox.num_sleeping, sandbox.num_waiting) == (0, 0, 0)


@pytest.mark.slow
async def test_programs_that_compute_do_so_in_turns(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(sandbox_slots=1)
    work = [start(run(sandbox, "one", BURN.format(0.5))) for _ in range(4)]
    most = 0
    while not all(one.done() for one in work):
        await asyncio.sleep(0.02)
        most = max(most, sandbox.num_running + sandbox.num_sleeping)
    assert most == 1


@pytest.mark.slow
async def test_a_grader_that_computes_keeps_the_permit_of_its_program(
    make_sandbox: MakeSandbox,
) -> None:
    sandbox = await make_sandbox(sandbox_slots=1)
    work = "def work():\n    for _ in range(2 * 10**7): pass\nwork()\nassert f() == 1"
    case = AssertCase(code=work)
    request = TestRequest(code="def f(): return 1", cases=(case,))
    judging = [start(sandbox.test(request)) for _ in range(2)]
    held = []
    while not all(one.done() for one in judging):
        await asyncio.sleep(0.02)
        held.append(sandbox.num_running + sandbox.num_sleeping)
    # A process that waits for the disk while it starts may lend its permit for a moment.
    assert sum(number > 1 for number in held) < 0.2 * len(held)
    assert [one.result().status for one in judging] == [Status.ACCEPTED] * 2


@pytest.mark.slow
async def test_cells_that_sleep_lend_their_permit(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(sandbox_slots=1)
    session = await sandbox.sessions.create(SessionRequest(), "me")
    for _ in range(2):  # the second time, its process is known to be idle
        cell = start(sandbox.sessions.execute(session.id, "me", "import time\ntime.sleep(2)"))
        await asyncio.sleep(0.5)
        assert sandbox.num_sleeping == 1
        assert (await run(sandbox, "other", "print(1)"))[0].stdout == "1\n"
        assert not cell.done()
        await cell
        await asyncio.sleep(0.3)
    assert (sandbox.num_running, sandbox.num_sleeping) == (0, 0)
    await sandbox.sessions.end(session.id, "me")


@pytest.mark.slow
async def test_extra_slots_take_programs_again(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(sandbox_slots=1, sandbox_max_slots=4)
    for _ in range(2):
        work = [start(run(sandbox, "one", SLEEP.format(0.6))) for _ in range(6)]
        for result, _ in await asyncio.gather(*work):
            assert result.stdout == "slept\n"


class Inside:
    """Return the requests of clients inside a gate."""

    def __init__(self, gate: FairLimiter) -> None:
        self.gate = gate
        self._stack = AsyncExitStack()

    async def enter(self, client: str) -> LimiterPlace | None:
        """Return a place for the client; None if it has to wait."""
        entering = asyncio.ensure_future(self._stack.enter_async_context(self.gate.enter(client)))
        await asyncio.sleep(0)
        if entering.done():
            return entering.result()
        entering.cancel()
        await asyncio.wait([entering])
        return None

    async def leave(self) -> None:
        await self._stack.aclose()


def gate_of(max_running: int, max_held: int) -> Inside:
    return Inside(FairLimiter(max_running, math.inf, max_held=max_held, min_share=max_running))


async def test_a_place_that_rests_is_lent_and_taken_back() -> None:
    inside = gate_of(1, 8)
    first = await inside.enter("a")
    assert first is not None
    assert await inside.enter("a") is None
    first.rest(True)
    first.rest(True)
    assert await inside.enter("a") is not None
    first.rest(False)
    assert (inside.gate.num_running, inside.gate.num_resting) == (2, 0)
    assert await inside.enter("a") is None
    await inside.leave()
    assert (inside.gate.num_running, inside.gate.num_resting) == (0, 0)


async def test_a_turn_comes_as_soon_as_a_place_rests() -> None:
    inside = gate_of(1, 8)
    first = await inside.enter("a")
    assert first is not None
    waiting = asyncio.ensure_future(inside.gate.enter("b").__aenter__())
    await asyncio.sleep(0)
    assert not waiting.done()
    first.rest(True)
    await asyncio.sleep(0)
    assert waiting.done()


async def test_resting_places_of_one_client_leave_room_for_others() -> None:
    inside = gate_of(2, 16)
    counts = []
    for client in ("a", "b", "c"):
        num = 0
        while place := await inside.enter(client):
            place.rest(True)
            num += 1
        counts.append(num)
    assert counts == [8, 4, 2]
    assert await inside.enter("d") is not None
    await inside.leave()


async def test_places_that_are_taken_back_delay_only_their_own_client() -> None:
    inside = gate_of(2, 16)
    places = []
    for _ in range(8):
        place = await inside.enter("a")
        assert place is not None
        place.rest(True)
        places.append(place)
    for place in places:
        place.rest(False)
    assert inside.gate.num_running == 8
    assert await inside.enter("a") is None
    assert await inside.enter("b") is not None
    assert await inside.enter("b") is None
    await inside.leave()
    assert await inside.enter("a") is not None
