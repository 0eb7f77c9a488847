"""Work in hand when a worker stops: finished in time, or cancelled after it has cleaned up."""

import asyncio
import threading

import pytest

from assay_trainer.rollouts.shutdown import InFlight, Requeued


def test_work_that_ends_in_time_is_done() -> None:
    async def work() -> str:
        await asyncio.sleep(0.05)
        return "done"

    in_hand = InFlight()
    in_hand.hand_back_in(60)
    assert in_hand.run(work()) == "done"


def test_what_is_not_done_in_time_cleans_up_and_is_handed_back() -> None:
    in_hand, begun, seen = InFlight(), threading.Barrier(4), []

    async def work(number: int) -> None:
        try:
            await asyncio.to_thread(begun.wait, 10)
            await asyncio.sleep(60)
        finally:
            seen.append(number)

    def play(number: int) -> None:
        with pytest.raises(Requeued):
            in_hand.run(work(number))

    threads = [threading.Thread(target=play, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    begun.wait(10)
    in_hand.hand_back()
    for thread in threads:
        thread.join(10)
    assert sorted(seen) == [0, 1, 2]


def test_nothing_is_begun_after_that() -> None:
    begun = []

    async def work() -> None:
        begun.append(1)

    in_hand = InFlight()
    in_hand.hand_back()
    with pytest.raises(Requeued):
        in_hand.run(work())
    assert begun == []
