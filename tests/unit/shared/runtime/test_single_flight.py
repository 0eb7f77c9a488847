import asyncio

import pytest

from assay_shared.runtime.single_flight import SingleFlight


async def test_work_is_shared_by_all_who_ask_meanwhile() -> None:
    flights: SingleFlight[int] = SingleFlight()
    num_runs = 0

    async def work() -> int:
        nonlocal num_runs
        num_runs += 1
        await asyncio.sleep(0.01)
        return num_runs

    assert await asyncio.gather(*(flights.run("a", work) for _ in range(5))) == [1] * 5
    assert await flights.run("a", work) == 2
    await asyncio.gather(flights.run("a", work), flights.run("b", work))
    assert num_runs == 4


async def test_an_error_reaches_all_and_is_not_kept() -> None:
    flights: SingleFlight[int] = SingleFlight()

    async def fail() -> int:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def work() -> int:
        return 1

    results = await asyncio.gather(
        *(flights.run("a", fail) for _ in range(3)), return_exceptions=True
    )
    assert [type(result) for result in results] == [ValueError] * 3
    assert await flights.run("a", work) == 1


async def test_the_last_who_leaves_ends_the_work() -> None:
    flights: SingleFlight[int] = SingleFlight()
    ended = asyncio.Event()

    async def work() -> int:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            ended.set()
            raise
        return 1

    waiting = [asyncio.create_task(flights.run("a", work)) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0.01)
    assert not ended.is_set()
    waiting[1].cancel()
    async with asyncio.timeout(1):
        await ended.wait()
    for one in waiting:
        with pytest.raises(asyncio.CancelledError):
            await one
