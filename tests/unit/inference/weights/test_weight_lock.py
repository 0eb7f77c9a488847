"""The lock: requests before new weights, and requests behind them."""

import asyncio

import pytest

from assay_inference.weights.weight_lock import WeightLock
from assay_shared.errors import NotReady, TimedOut


async def opened() -> WeightLock:
    gate = WeightLock("nothing yet")
    await gate.open()
    return gate


async def pass_through(gate: WeightLock, num_sequences: int = 1) -> None:
    async with gate.inside(num_sequences):
        pass


async def test_shut_it_says_why() -> None:
    with pytest.raises(NotReady, match="nothing yet") as raised:
        await pass_through(WeightLock("nothing yet"))
    assert raised.value.retry_after_s is not None


async def test_held_it_waits_for_those_inside_and_keeps_the_others_out() -> None:
    gate = await opened()
    async with gate.inside(2):
        holding = asyncio.create_task(gate.hold(timeout_s=10))
        await asyncio.sleep(0)
        late = asyncio.create_task(pass_through(gate))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not holding.done()
        assert not late.done()
        assert gate.num_inside == 2
    await holding
    assert not late.done()
    await gate.open()
    await late
    assert gate.num_inside == 0


async def test_what_waits_at_a_held_gate_fails_when_that_is_shut() -> None:
    gate = await opened()
    await gate.hold(timeout_s=1)
    late = asyncio.create_task(pass_through(gate))
    await asyncio.sleep(0)
    await gate.shut("lost")
    with pytest.raises(NotReady, match="lost"):
        await late


async def test_a_hold_that_takes_too_long_lets_all_go_on() -> None:
    gate = await opened()
    async with gate.inside(3):
        with pytest.raises(TimedOut, match="3 sequences still run"):
            await gate.hold(timeout_s=0.01)
        await pass_through(gate)
