"""Work in flight when a worker stops: finished in time, or cancelled after it has cleaned up."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from assay_shared.telemetry.context import current_log_fields, log_fields
from assay_trainer.rollouts.shutdown import Requeued, WorkLoop


@pytest.fixture
def work() -> Iterator[WorkLoop]:
    with WorkLoop() as work:
        yield work


def test_work_that_ends_in_time_is_done(work: WorkLoop) -> None:
    async def done() -> str:
        await asyncio.sleep(0.05)
        return "done"

    work.hand_back_in(60)
    assert work.run(done()) == "done"


def test_threads_share_one_loop_and_each_keeps_its_own_context(work: WorkLoop) -> None:
    all_at_once, seen = threading.Barrier(64), {}

    async def look() -> tuple[asyncio.AbstractEventLoop, object]:
        await asyncio.sleep(0.01)
        return asyncio.get_running_loop(), current_log_fields()["group"]

    def play(number: int) -> None:
        all_at_once.wait(10)
        with log_fields(group=str(number)):
            seen[number] = work.run(look())

    join([threading.Thread(target=play, args=(number,)) for number in range(64)])
    assert {number: group for number, (_, group) in seen.items()} == {n: str(n) for n in range(64)}
    assert len({loop for loop, _ in seen.values()}) == 1


def test_what_is_not_done_in_time_cleans_up_and_is_handed_back(work: WorkLoop) -> None:
    begun, seen = threading.Barrier(4), []

    async def linger(number: int) -> None:
        try:
            await asyncio.to_thread(begun.wait, 10)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            seen.append(number)

    def play(number: int) -> None:
        with pytest.raises(Requeued):
            work.run(linger(number))
        assert number in seen, "it has cleaned up before it is handed back"

    threads = [threading.Thread(target=play, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    begun.wait(10)
    work.hand_back()
    for thread in threads:
        thread.join(10)
    assert sorted(seen) == [0, 1, 2]


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)


def test_nothing_is_begun_after_that(work: WorkLoop) -> None:
    begun = []

    async def begin() -> None:
        begun.append(1)

    work.hand_back()
    with pytest.raises(Requeued):
        work.run(begin())
    assert begun == []


def test_the_end_of_the_loop_cancels_work_and_leaves_what_was_entered() -> None:
    left: list[object] = []
    ended: list[int] = []

    @asynccontextmanager
    async def client() -> AsyncIterator[str]:
        yield "client"
        left.append(asyncio.get_running_loop())

    def play() -> None:
        with pytest.raises(Requeued):
            own.run(asyncio.sleep(60))
        ended.append(1)

    with WorkLoop() as own:
        assert own.enter(client()) == "client"
        thread = threading.Thread(target=play)
        thread.start()
        own.run(asyncio.sleep(0.05))
        assert (left, ended) == ([], [])
    thread.join(10)
    assert (len(left), ended) == (1, [1])
