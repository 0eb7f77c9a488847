"""The same tests for limits of a process and limits in Redis; then tests of replicas."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
import redis

from assay_shared.errors import Overloaded, TimedOut, TooLarge, Unreachable
from assay_shared.providers.config import ProviderLimits
from assay_shared.providers.state.limits import Limiter, request_bucket
from assay_shared.providers.state.limits_process import ProcessLimits
from assay_shared.providers.state.limits_redis import RedisLimits
from tests.support.valkey import TestValkey

ONE = ProviderLimits(concurrency=1)
NONE = ProviderLimits()
#: A minute, shortened.
WINDOW_S = 1.0
#: Grants are seen a little after they are given: windows of tests are shorter by this.
JITTER_S = 0.05

Make = Callable[..., Any]


@pytest.fixture(scope="module")
def server() -> Iterator[TestValkey]:
    """Return a Valkey for all tests without harm to it."""
    server = TestValkey()
    yield server
    server.stop()


@pytest.fixture
def empty(server: TestValkey) -> TestValkey:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return server


@pytest.fixture(params=["process", "redis"])
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    """Makes an open limiter; each test has a Redis without a memory."""
    url = ""
    if request.param == "redis":
        url = request.getfixturevalue("empty").url
    async with AsyncExitStack() as stack:

        async def build(**options: Any) -> Limiter:
            limiter: Limiter
            options = {"window_s": WINDOW_S, **options}
            limiter = RedisLimits(url, "judge", **options) if url else ProcessLimits(**options)
            await limiter.open()
            stack.push_async_callback(limiter.close)
            return limiter

        yield build


@asynccontextmanager
async def replicas(server: TestValkey, number: int, **options: Any) -> AsyncIterator[list[Limiter]]:
    async with AsyncExitStack() as stack:
        made: list[Limiter] = []
        for _ in range(number):
            limiter = RedisLimits(server.url, "judge", **{"window_s": WINDOW_S, **options})
            await limiter.open()
            stack.push_async_callback(limiter.close)
            made.append(limiter)
        yield made


class Upstream:
    """Notes the admission times and callers of requests, and the most places held."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.callers: list[str] = []
        self.num_held = 0
        self.most_held = 0

    async def ask(
        self,
        limiter: Limiter,
        limits: ProviderLimits,
        *,
        caller: str = "alice",
        tokens: int = 1,
        takes_s: float = 0.0,
        deadline_s: float = 10.0,
    ) -> None:
        async with limiter.admit("p", limits, tokens, caller, deadline_s):
            self.times.append(time.monotonic())
            self.callers.append(caller)
            self.num_held += 1
            self.most_held = max(self.most_held, self.num_held)
            await asyncio.sleep(takes_s)
            self.num_held -= 1

    def most_within(self, window_s: float) -> int:
        return max(sum(0 <= t - start < window_s for t in self.times) for start in self.times)


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


async def hold(limiter: Limiter, limits: ProviderLimits) -> AsyncExitStack:
    """A place held until the stack is closed."""
    stack = AsyncExitStack()
    await stack.enter_async_context(limiter.admit("p", limits, 1, "holder", 5))
    return stack


async def queue(
    upstream: Upstream, limiter: Limiter, callers: str, **options: Any
) -> list["asyncio.Task[None]"]:
    """Return a waiting request for each letter, in order."""
    tasks = []
    for caller in callers:
        ask = upstream.ask(limiter, ONE, caller=caller, **options)
        tasks.append(asyncio.create_task(ask))
        await asyncio.sleep(0.01)
    return tasks


async def test_no_more_than_concurrency_are_held(make: Make, upstream: Upstream) -> None:
    limiter = await make()
    limits = ProviderLimits(concurrency=3)
    async with asyncio.timeout(5):
        await asyncio.gather(*(upstream.ask(limiter, limits, takes_s=0.01) for _ in range(30)))
    assert upstream.most_held == 3
    assert len(upstream.times) == 30


async def test_no_minute_has_more_requests_than_the_limit(make: Make, upstream: Upstream) -> None:
    limiter = await make(window_s=0.5)
    limits = ProviderLimits(requests_per_minute=40)
    started = time.monotonic()
    await asyncio.gather(*(upstream.ask(limiter, limits) for _ in range(46)))
    assert upstream.most_within(0.5 - JITTER_S) <= 40
    # 4 at once, then 37 a window: a limit that is far from being used would be none of ours.
    assert time.monotonic() - started < 42 / 74 + 0.4


def test_the_bucket_of_any_limit_lets_the_next_request_in_with_the_next_minute() -> None:
    for limit in (1, 2, 9, 10, 11, 500):
        bucket = request_bucket(limit, 60.0)
        assert (limit + 1 - bucket.capacity) / bucket.per_s == pytest.approx(60.0)


async def test_tokens_that_were_not_used_come_back(make: Make, upstream: Upstream) -> None:
    limiter = await make()
    limits = ProviderLimits(tokens_per_minute=1000)  # holds 100, fills with 900 a second
    started = time.monotonic()
    for _ in range(20):
        async with limiter.admit("p", limits, 100, "alice", 5) as grant:
            grant.settle(0)
    assert time.monotonic() - started < 0.5
    for _ in range(4):
        async with limiter.admit("p", limits, 100, "alice", 5):
            pass  # an answer that nobody settles counts as what was reserved
    assert time.monotonic() - started > 0.3


async def test_tokens_used_beyond_what_was_reserved_are_taken(make: Make) -> None:
    limiter = await make()
    limits = ProviderLimits(tokens_per_minute=1000)
    async with limiter.admit("p", limits, 100, "alice", 5) as grant:
        grant.settle(300)
    started = time.monotonic()
    async with limiter.admit("p", limits, 70, "alice", 5):
        assert 0.25 < time.monotonic() - started < 1.2  # 270 at 900 a second


async def test_a_request_larger_than_the_bucket_goes_when_it_is_full(make: Make) -> None:
    limiter = await make()
    limits = ProviderLimits(tokens_per_minute=1000)
    async with limiter.admit("p", limits, 400, "alice", 0.2):
        pass
    with pytest.raises(Overloaded, match="p: no room within 0.2 s"):
        async with limiter.admit("p", limits, 1, "alice", 0.2):
            pass
    with pytest.raises(TooLarge, match="up to 1001 tokens, where a minute allows 1000"):
        async with limiter.admit("p", limits, 1001, "alice", 0.2):
            pass


async def test_callers_take_turns(make: Make, upstream: Upstream) -> None:
    limiter = await make()
    held = await hold(limiter, ONE)
    tasks = await queue(upstream, limiter, "aaaaaaaabb")
    await held.aclose()
    await asyncio.gather(*tasks)
    assert [i for i, caller in enumerate(upstream.callers) if caller == "b"] <= [1, 3]
    assert sorted(upstream.callers[:4]) == ["a", "a", "b", "b"]
    assert upstream.callers[4:] == ["a"] * 6


async def test_what_does_not_fit_within_the_deadline_is_refused(
    make: Make, upstream: Upstream
) -> None:
    limiter = await make()
    held = await hold(limiter, ONE)
    started = time.monotonic()
    with pytest.raises(Overloaded) as refusal:
        await upstream.ask(limiter, ONE, deadline_s=0.1)
    assert refusal.value.retry_after_s is not None
    assert refusal.value.retry_after_s >= 1
    assert 0.1 <= time.monotonic() - started < 1.5
    await held.aclose()
    await upstream.ask(limiter, ONE, deadline_s=0.1)


async def test_the_queue_is_bounded_and_shared_fairly(make: Make, upstream: Upstream) -> None:
    limiter = await make(max_waiting=3)
    held = await hold(limiter, ONE)
    waiting = await queue(upstream, limiter, "aaa")
    with pytest.raises(Overloaded, match="too many requests are waiting already"):
        await upstream.ask(limiter, ONE, caller="a")
    waiting += await queue(upstream, limiter, "b")
    with pytest.raises(Overloaded, match="other callers had fewer requests waiting"):
        await waiting[2]
    await held.aclose()
    await asyncio.gather(*(waiting[i] for i in (0, 1, 3)))
    assert sorted(upstream.callers) == ["a", "a", "b"]


async def test_who_stops_waiting_takes_no_place(make: Make, upstream: Upstream) -> None:
    limiter = await make()
    held = await hold(limiter, ONE)
    tasks = await queue(upstream, limiter, "aaa", takes_s=0.05)
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    await held.aclose()
    tasks[1].cancel()  # whose turn has just come
    await tasks[2]
    await upstream.ask(limiter, ONE, deadline_s=1)


async def test_a_failure_of_the_request_gives_its_place_back(make: Make) -> None:
    limiter = await make()
    for _ in range(3):
        with pytest.raises(ValueError, match="upstream"):
            async with limiter.admit("p", ONE, 1, "alice", 1):
                raise ValueError("upstream")


async def test_a_pause_holds_all_and_refuses_who_cannot_wait(
    make: Make, upstream: Upstream
) -> None:
    limiter = await make()
    await upstream.ask(limiter, NONE)
    await limiter.pause("p", 0.95)
    started = time.monotonic()
    with pytest.raises(Overloaded) as refusal:
        await upstream.ask(limiter, NONE, deadline_s=0.9)
    assert time.monotonic() - started < 0.6, "it waits for what cannot come"
    assert refusal.value.retry_after_s == pytest.approx(1.0, abs=0.01)
    await upstream.ask(limiter, NONE)
    assert 0.9 < time.monotonic() - started < 2.0
    async with limiter.admit("another", NONE, 1, "alice", 0.1):
        pass
    await limiter.pause("p", 30)
    with pytest.raises(Overloaded) as refusal:
        await upstream.ask(limiter, NONE)
    assert refusal.value.retry_after_s == pytest.approx(30, abs=0.5)


async def test_replicas_share_concurrency_and_requests(
    empty: TestValkey, upstream: Upstream
) -> None:
    limits = ProviderLimits(concurrency=4, requests_per_minute=60)
    async with replicas(empty, 2, window_s=0.5) as both:
        await asyncio.gather(
            *(upstream.ask(limiter, limits, takes_s=0.02) for limiter in both for _ in range(33))
        )
    assert upstream.most_held == 4
    assert upstream.most_within(0.5 - JITTER_S) <= 60


async def test_callers_of_two_replicas_take_turns(empty: TestValkey, upstream: Upstream) -> None:
    """A replica with many requests would otherwise pass its own places on to itself."""
    async with replicas(empty, 2) as (first, second):
        held = await hold(first, ONE)
        tasks = await queue(upstream, first, "aaaaaaaa", takes_s=0.01)
        tasks += await queue(upstream, second, "bb", takes_s=0.01)
        await held.aclose()
        await asyncio.gather(*tasks)
    assert sorted(upstream.callers[:4]) == ["a", "a", "b", "b"]


HOLDER = """
import asyncio, sys
from assay_shared.providers.state.limits import ProviderLimits
from assay_shared.providers.state.limits_redis import RedisLimits

async def main():
    limiter = RedisLimits(sys.argv[1], "judge", lease_s=0.3)
    await limiter.open()
    async with limiter.admit("p", ProviderLimits(concurrency=1), 1, "alice", 5):
        print("held", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_what_a_killed_replica_held_comes_back(empty: TestValkey, upstream: Upstream) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, empty.url, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"held\n"
        async with replicas(empty, 1, lease_s=0.3) as (limiter,):
            with pytest.raises(Overloaded):  # for longer than a lease: it is renewed
                await upstream.ask(limiter, ONE, deadline_s=0.6)
            process.kill()
            await upstream.ask(limiter, ONE, deadline_s=1.0)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_waiting_asks_redis_seldom(empty: TestValkey, upstream: Upstream) -> None:
    async with replicas(empty, 1) as (limiter,):
        held = await hold(limiter, ONE)
        tasks = await queue(upstream, limiter, "a" * 20)
        with redis.Redis.from_url(empty.url) as client:
            before = client.info("commandstats")["cmdstat_evalsha"]["calls"]
            await asyncio.sleep(0.7)
            assert client.info("commandstats")["cmdstat_evalsha"]["calls"] - before <= 2
        started = time.monotonic()
        await held.aclose()
        await asyncio.gather(*tasks)
        assert time.monotonic() - started < 1, "places are passed on without waiting"


async def test_who_does_not_hear_that_it_is_next_finds_out(
    empty: TestValkey, upstream: Upstream
) -> None:
    async with replicas(empty, 2, lease_s=0.6) as (first, second):
        held = await hold(first, ONE)
        tasks = await queue(upstream, second, "a")
        with redis.Redis.from_url(empty.url) as client:
            assert client.client_kill_filter(_type="pubsub") == 2
            await held.aclose()
        async with asyncio.timeout(2):
            await asyncio.gather(*tasks)


async def test_a_redis_that_lost_its_memory_is_told_what_is_held(
    empty: TestValkey, upstream: Upstream
) -> None:
    async with replicas(empty, 2, lease_s=0.6) as (first, second):
        held = await hold(first, ONE)
        with redis.Redis.from_url(empty.url) as client:
            client.flushall()
        await asyncio.sleep(0.3)
        with pytest.raises(Overloaded):
            await upstream.ask(second, ONE, deadline_s=0.1)
        await held.aclose()
        await upstream.ask(second, ONE, deadline_s=0.5)


@pytest.mark.slow
async def test_without_redis_nobody_is_admitted_until_it_is_back(
    own_valkey: TestValkey, upstream: Upstream
) -> None:
    async with replicas(own_valkey, 1, timeout_s=0.5) as (limiter,):
        held = await hold(limiter, ONE)
        waiting = await queue(upstream, limiter, "a")
        own_valkey.kill()
        with pytest.raises(Unreachable, match="no Redis"):
            await waiting[0]
        with pytest.raises(Unreachable, match="no Redis"):
            await upstream.ask(limiter, ONE)
        with pytest.raises(Unreachable, match="no Redis"):
            await limiter.pause("p", 1)
        await asyncio.to_thread(own_valkey.start)
        with pytest.raises(Overloaded):
            await upstream.ask(limiter, ONE, deadline_s=0.1)
        await held.aclose()
        await upstream.ask(limiter, ONE)


@pytest.mark.slow
async def test_a_redis_that_hangs_is_an_error_in_time(
    own_valkey: TestValkey, upstream: Upstream
) -> None:
    async with replicas(own_valkey, 1, timeout_s=0.2) as (limiter,):
        await upstream.ask(limiter, ONE)
        os.kill(own_valkey.process.pid, signal.SIGSTOP)
        started = time.monotonic()
        with pytest.raises(TimedOut):
            await upstream.ask(limiter, ONE)
        assert time.monotonic() - started < 2.0
        os.kill(own_valkey.process.pid, signal.SIGCONT)
        await asyncio.sleep(0.1)
        # What was asked meanwhile may have been granted to who had gone, who gives it back.
        await upstream.ask(limiter, ONE, deadline_s=5)


async def test_opening_without_redis_fails() -> None:
    limiter = RedisLimits("unix:///nowhere/valkey.sock", "judge")
    with pytest.raises(Unreachable, match="no Redis"):
        await limiter.open()
    await limiter.close()
