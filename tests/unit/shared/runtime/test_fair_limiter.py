import asyncio

import pytest

from assay_shared.errors import Overloaded
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.runtime.gather import gather


async def test_a_gate_bounds_both_running_and_waiting() -> None:
    gate = FairLimiter(max_running=2, max_waiting=1, retry_after_s=3.0)
    running, most, release = 0, 0, asyncio.Event()

    async def work() -> None:
        nonlocal running, most
        async with gate.enter():
            running += 1
            most = max(most, running)
            await release.wait()
            running -= 1

    tasks = [asyncio.create_task(work()) for _ in range(3)]
    await asyncio.sleep(0)
    assert (running, gate.num_waiting) == (2, 1)
    with pytest.raises(Overloaded) as refused:
        async with gate.enter():
            pass
    assert refused.value.retry_after_s == 3.0
    release.set()
    await asyncio.gather(*tasks)
    assert most == 2
    assert gate.num_waiting == 0


async def test_one_who_gives_up_waiting_leaves_no_trace() -> None:
    gate = FairLimiter(max_running=1, max_waiting=1)
    async with gate.enter():
        waiting = asyncio.create_task(gate.enter().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert gate.num_waiting == 0
    async with gate.enter():
        pass


async def test_together_keeps_order_and_ends_the_others_on_an_error() -> None:
    ended = []

    async def one(value: int, wait_s: float) -> int:
        try:
            await asyncio.sleep(wait_s)
        except asyncio.CancelledError:
            ended.append(value)
            raise
        if value < 0:
            raise ValueError(value)
        return value

    assert await gather(one(v, w) for v, w in ((1, 0.02), (2, 0.0))) == [1, 2]
    with pytest.raises(ValueError, match="-1"):
        await gather(one(v, w) for v, w in ((1, 10.0), (-1, 0.0)))
    assert ended == [1]


async def test_clients_take_turns_and_each_keeps_its_order() -> None:
    gate = FairLimiter(max_running=1, max_waiting=10)
    served = []

    async def work(client: str, number: int) -> None:
        async with gate.enter(client):
            served.append(f"{client}{number}")
            await asyncio.sleep(0)

    async with gate.enter("other"):
        names = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("b", 2)]
        tasks = []
        for name in names:
            tasks.append(asyncio.create_task(work(*name)))
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert served == ["a1", "b1", "c1", "a2", "b2", "a3"]


@pytest.mark.promise("overload is refused, and no client starves another")
async def test_a_greedy_client_makes_room_for_others() -> None:
    gate = FairLimiter(max_running=1, max_waiting=4)
    finished, refused = [], []

    async def work(name: str) -> None:
        try:
            async with gate.enter(name[0]):
                finished.append(name)
        except Overloaded:
            refused.append(name)

    async with gate.enter("other"):
        tasks = []
        for name in ("a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3"):
            tasks.append(asyncio.create_task(work(name)))
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert sorted(finished) == ["a1", "a2", "b1", "b2"]
    assert sorted(refused) == ["a3", "a4", "a5", "b3"]
    assert gate.num_waiting == 0


@pytest.mark.promise("overload is refused, and no client starves another")
async def test_one_who_waits_for_too_long_is_refused_and_takes_no_turn() -> None:
    gate = FairLimiter(max_running=1, max_waiting=4, max_wait_s=0.05)
    async with gate.enter():
        with pytest.raises(Overloaded, match=r"no room within 0\.05 s"):
            async with gate.enter():
                pass
    assert gate.num_waiting == 0
    async with gate.enter():
        pass


async def test_a_turn_that_comes_as_its_request_leaves_goes_to_the_next() -> None:
    gate = FairLimiter(max_running=1, max_waiting=4)
    holder = gate.enter()
    await holder.__aenter__()
    leaving = asyncio.create_task(gate.enter().__aenter__())
    await asyncio.sleep(0)
    await holder.__aexit__(None, None, None)  # its turn has come, and it has not run since
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    async with asyncio.timeout(1), gate.enter():
        pass


@pytest.mark.promise("overload is refused, and no client starves another")
async def test_requests_of_a_client_take_turns_and_clients_count_once() -> None:
    gate = FairLimiter(max_running=1, max_waiting=20)
    served = []

    async def work(client: str, request: str, number: int) -> None:
        async with gate.enter(client, request):
            served.append(f"{client}{request}{number}")
            await asyncio.sleep(0)

    async with gate.enter("other"):
        names = [("a", "r", 1), ("a", "r", 2), ("a", "r", 3), ("a", "s", 1), ("a", "t", 1)]
        names += [("b", "r", 1), ("b", "r", 2)]
        tasks = []
        for name in names:
            tasks.append(asyncio.create_task(work(*name)))
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert served == ["ar1", "br1", "as1", "br2", "at1", "ar2", "ar3"]
    assert gate.num_waiting == 0
