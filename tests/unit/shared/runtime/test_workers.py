import asyncio
import signal
from collections.abc import Iterator

import pytest

from assay_shared.answers.formulas.symbolic import MODULES, Symbolic
from assay_shared.errors import InternalFault, InvalidInput, TooHard
from assay_shared.runtime.workers import Workers
from assay_shared.telemetry.context import client_scope, request_scope


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    workers = Workers(MODULES, num=1)
    yield workers
    workers.close()


@pytest.mark.slow
async def test_a_call_returns_what_the_function_returns(workers: Workers) -> None:
    assert await workers.call("operator:add", 1, 2, cpu_s=5.0) == 3
    sums = await asyncio.gather(*(workers.call("operator:add", n, 1, cpu_s=5.0) for n in range(50)))
    assert sums == list(range(1, 51))


@pytest.mark.parametrize("cpu_s", [0.02, 0.2, 0.7])
@pytest.mark.slow
async def test_a_call_that_takes_longer_than_its_limit_is_too_hard(
    workers: Workers, cpu_s: float
) -> None:
    with pytest.raises(TooHard, match=f"more than {cpu_s} s"):
        await workers.call("builtins:pow", 9, 9**9, cpu_s=cpu_s)
    assert await workers.call("operator:add", 1, 2, cpu_s=5.0) == 3


async def test_a_call_that_takes_too_much_memory_or_stack_is_too_hard(workers: Workers) -> None:
    with pytest.raises(TooHard, match="MemoryError"):
        await workers.call("builtins:bytearray", 2**40, cpu_s=1.0)
    with pytest.raises(TooHard, match="RecursionError"):
        await workers.call("json:loads", "[" * 100_000, cpu_s=1.0)


async def test_what_a_function_raises_is_an_error_of_ours(workers: Workers) -> None:
    with pytest.raises(InternalFault, match="TypeError: object of type 'int' has no len"):
        await workers.call("builtins:len", 5, cpu_s=1.0)


async def test_a_process_that_ends_within_a_call_is_a_fault_and_is_replaced(
    workers: Workers,
) -> None:
    with pytest.raises(InternalFault, match=f"signal {signal.SIGKILL.value}"):
        await workers.call("signal:raise_signal", signal.SIGKILL.value, cpu_s=1.0)
    assert await workers.call("operator:add", 1, 2, cpu_s=5.0) == 3


async def test_secrets_of_the_service_are_not_in_the_processes(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_TOKEN", "secret")
    fresh = Workers(num=1)
    try:
        assert await fresh.call("os:getenv", "ASSAY_TOKEN", cpu_s=1.0) is None
    finally:
        fresh.close()


@pytest.mark.slow
async def test_a_short_call_does_not_wait_for_anothers_long_ones(workers: Workers) -> None:
    with client_scope("mallory"):
        bombs = [
            asyncio.ensure_future(workers.call("builtins:pow", 9, 9**9 + n, cpu_s=3.0))
            for n in range(6)
        ]
    await asyncio.sleep(0)
    with client_scope("alice"):
        for n in range(20):
            assert await workers.call("operator:add", n, 1, cpu_s=3.0) == n + 1
    assert not any(bomb.done() for bomb in bombs[2:])
    workers.close()
    await asyncio.gather(*bombs, return_exceptions=True)


@pytest.mark.slow
async def test_a_request_does_not_wait_for_another_of_its_client(workers: Workers) -> None:
    with request_scope("large"):
        many = [
            asyncio.ensure_future(workers.call("builtins:pow", 9, 9**9 + n, cpu_s=1.0))
            for n in range(200)
        ]
    await asyncio.sleep(0)
    with request_scope("small"):
        async with asyncio.timeout(10):
            assert await workers.call("builtins:len", "9" * 2, cpu_s=1.0) == 2
    assert sum(one.done() for one in many) < 20
    for one in many:
        one.cancel()
    await asyncio.gather(*many, return_exceptions=True)
    assert await workers.call("operator:add", 1, 2, cpu_s=1.0) == 3


@pytest.mark.slow
async def test_a_waiting_call_of_a_cancelled_caller_is_never_begun(workers: Workers) -> None:
    calls = [asyncio.ensure_future(workers.call("time:sleep", 0.5, cpu_s=0.05)) for _ in range(40)]
    await asyncio.sleep(0.1)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    async with asyncio.timeout(5):  # 40 calls would take 20 s in one process, or 10 in two
        assert await workers.call("operator:add", 1, 2, cpu_s=0.05) == 3


@pytest.mark.slow
async def test_a_formula_that_is_too_hard_is_the_answers_fault_or_the_references() -> None:
    symbolic = Symbolic(0.1)
    hard = "".join(rf"(\sqrt{{x+{n}}}+y)" for n in range(2, 30))
    try:
        assert await symbolic.equal(r"\frac{2x}{4}", r"\frac{x}{2}")
        for answer in (hard, "9^{9^{9^9}}"):
            for _ in range(2):  # the second time it is known
                with pytest.raises(TooHard, match="too hard to compare"):
                    await symbolic.equal(answer, "x+1")
        for reference in (hard, "9^{9^{9^9}}"):
            with pytest.raises(InvalidInput, match="task.reference: too hard to compare with"):
                await symbolic.equal("x+2", reference)
    finally:
        symbolic.close()
