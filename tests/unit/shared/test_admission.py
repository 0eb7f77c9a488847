import asyncio

import pytest

from assay_shared.admission import Gate
from assay_shared.errors import Overloaded
from assay_shared.together import together


async def test_a_gate_bounds_both_running_and_waiting() -> None:
    gate = Gate(max_running=2, max_waiting=1, retry_after_s=3.0)
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
    gate = Gate(max_running=1, max_waiting=1)
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

    assert await together(one(v, w) for v, w in ((1, 0.02), (2, 0.0))) == [1, 2]
    with pytest.raises(ValueError, match="-1"):
        await together(one(v, w) for v, w in ((1, 10.0), (-1, 0.0)))
    assert ended == [1]
