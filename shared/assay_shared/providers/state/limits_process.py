"""Limits on requests to providers, kept by a single process."""

import asyncio
import time
from bisect import bisect_left, insort
from dataclasses import dataclass, field

from assay_shared.errors import Overloaded
from assay_shared.providers.config import ProviderLimits
from assay_shared.providers.state.limits import (
    MAX_PAUSE_S,
    Grant,
    TokenBucket,
    check_size,
    no_room,
    request_bucket,
    token_bucket,
)

#: A wait shorter than this is the rounding of a clock.
_TICK_S = 1e-5


@dataclass(order=True)
class _Waiter:
    round: int
    number: int
    tokens: int = field(compare=False)
    caller: str = field(compare=False)
    turn: asyncio.Future[None] = field(compare=False)


@dataclass
class _Caller:
    num_waiting: int = 0
    last_round: int = 0


class _Level:
    """The level of a bucket; negative while requests have taken more than it held."""

    def __init__(self, bucket: TokenBucket, now: float) -> None:
        self._bucket = bucket
        self._level = bucket.capacity
        self._at = now

    def wait_s(self, amount: float, now: float) -> float:
        """Return the time until the bucket holds `amount`, or is full."""
        missing = min(amount, self._bucket.capacity) - self._fill(now)
        wait_s = missing / self._bucket.per_s
        return wait_s if wait_s > _TICK_S else 0.0

    def take(self, amount: float, now: float) -> None:
        self._level = min(self._fill(now) - amount, self._bucket.capacity)

    def _fill(self, now: float) -> float:
        grown = self._level + (now - self._at) * self._bucket.per_s
        self._level, self._at = min(grown, self._bucket.capacity), now
        return self._level


class _Pool:
    """The admitted and the waiting requests of a provider."""

    def __init__(self, provider: str, max_waiting: int, window_s: float) -> None:
        self._provider = provider
        self._max_waiting = max_waiting
        self._window_s = window_s
        self._limits = ProviderLimits()
        self._requests: _Level | None = None
        self._tokens: _Level | None = None
        self._paused_until = 0.0
        self._num_held = 0
        self._queue: list[_Waiter] = []
        self._callers: dict[str, _Caller] = {}
        self._round = 0
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None

    def use(self, limits: ProviderLimits, now: float) -> None:
        if limits == self._limits:
            return
        self._limits = limits
        per_minute = limits.requests_per_minute, limits.tokens_per_minute
        buckets = (
            None if limit is None else _Level(bucket(limit, self._window_s), now)
            for limit, bucket in zip(per_minute, (request_bucket, token_bucket), strict=True)
        )
        self._requests, self._tokens = buckets

    def pause(self, seconds: float) -> None:
        until = time.monotonic() + min(seconds, MAX_PAUSE_S)
        self._paused_until = max(self._paused_until, until)

    async def enter(self, tokens: int, caller: str, deadline_s: float) -> None:
        now = time.monotonic()
        if self._request_wait_s(now) > deadline_s:
            raise self._late(deadline_s)
        if not self._queue and self._has_place() and self._wait_s(tokens, now) <= 0:
            self._hold(tokens, now)
            return
        waiter = self._join(tokens, caller)
        self._admit()
        try:
            async with asyncio.timeout(deadline_s):
                await waiter.turn
        except TimeoutError:
            self._desert(waiter)
            raise self._late(deadline_s) from None
        except asyncio.CancelledError:
            self._desert(waiter)
            raise

    def _desert(self, waiter: _Waiter) -> None:
        turn = waiter.turn
        if waiter in self._queue:
            self._remove(waiter)
            self._admit()
        elif not turn.cancelled() and turn.exception() is None:
            self.leave(waiter.tokens)  # it was admitted at the same moment

    def leave(self, tokens_back: int) -> None:
        """Give back a place and its unused tokens; a negative number takes further tokens."""
        self._num_held -= 1
        if self._tokens is not None:
            self._tokens.take(-tokens_back, time.monotonic())
        self._admit()

    def _late(self, deadline_s: float) -> Overloaded:
        wait_s = self._request_wait_s(time.monotonic())
        return no_room(self._provider, f"no room within {deadline_s:.3g} s", wait_s)

    def _request_wait_s(self, now: float) -> float:
        """Return the wait of a request with 0 tokens."""
        wait_s = max(0.0, self._paused_until - now)
        return wait_s if self._requests is None else max(wait_s, self._requests.wait_s(1, now))

    def _wait_s(self, tokens: int, now: float) -> float:
        wait_s = self._request_wait_s(now)
        return wait_s if self._tokens is None else max(wait_s, self._tokens.wait_s(tokens, now))

    def _join(self, tokens: int, caller: str) -> _Waiter:
        own = self._callers.get(caller, _Caller())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._number += 1
        next_round = max(self._round, own.last_round) + 1
        waiter = _Waiter(next_round, self._number, tokens, caller, turn)
        if len(self._queue) >= self._max_waiting:
            self._make_room(waiter)
        own.num_waiting += 1
        own.last_round = waiter.round
        self._callers[caller] = own
        insort(self._queue, waiter)
        return waiter

    def _make_room(self, newcomer: _Waiter) -> None:
        if not self._queue or self._queue[-1].round <= newcomer.round:
            raise no_room(self._provider, "too many requests are waiting already")
        last = self._queue[-1]
        self._remove(last)
        if not last.turn.done():
            why = "other callers had fewer requests waiting"
            last.turn.set_exception(no_room(self._provider, why))

    def _remove(self, waiter: _Waiter) -> None:
        del self._queue[bisect_left(self._queue, waiter)]
        caller = self._callers[waiter.caller]
        caller.num_waiting -= 1
        if caller.num_waiting == 0:
            del self._callers[waiter.caller]

    def _admit(self) -> None:
        """Admit waiting requests in order while there is room, and set a timer for the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._queue:
            return
        now = time.monotonic()
        while self._queue and self._has_place():
            waiter = self._queue[0]
            wait_s = self._wait_s(waiter.tokens, now)
            if wait_s > 0:
                self._timer = asyncio.get_running_loop().call_later(wait_s, self._admit)
                return
            self._let_in(waiter, now)

    def _has_place(self) -> bool:
        return self._limits.concurrency is None or self._num_held < self._limits.concurrency

    def _let_in(self, waiter: _Waiter, now: float) -> None:
        self._remove(waiter)
        self._round = waiter.round
        if waiter.turn.done():  # the waiting request was cancelled at the same moment
            return
        self._hold(waiter.tokens, now)
        waiter.turn.set_result(None)

    def _hold(self, tokens: int, now: float) -> None:
        self._num_held += 1
        if self._requests is not None:
            self._requests.take(1, now)
        if self._tokens is not None:
            self._tokens.take(tokens, now)


class _Admission:
    """A context manager for a place of a pool: a generator would cost three times as much."""

    __slots__ = ("_caller", "_deadline_s", "_grant", "_pool")

    def __init__(self, pool: _Pool, tokens: int, caller: str, deadline_s: float) -> None:
        self._pool = pool
        self._grant = Grant(tokens, tokens)
        self._caller = caller
        self._deadline_s = deadline_s

    async def __aenter__(self) -> Grant:
        await self._pool.enter(self._grant.reserved_tokens, self._caller, self._deadline_s)
        return self._grant

    async def __aexit__(self, *_: object) -> None:
        self._pool.leave(self._grant.reserved_tokens - self._grant.used_tokens)


class ProcessLimits:
    """Implements `assay_shared.providers.state.limits.Limiter` for a single process.

    `window_s` is the window of the per-minute limits, in seconds.
    """

    def __init__(self, *, max_waiting: int = 1024, window_s: float = 60.0) -> None:
        self._max_waiting = max_waiting
        self._window_s = window_s
        self._pools: dict[str, _Pool] = {}

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def admit(
        self, provider: str, limits: ProviderLimits, tokens: int, caller: str, deadline_s: float
    ) -> "_Admission":
        check_size(provider, limits, tokens)
        pool = self._pool(provider)
        pool.use(limits, time.monotonic())
        return _Admission(pool, tokens, caller, deadline_s)

    async def pause(self, provider: str, seconds: float) -> None:
        self._pool(provider).pause(seconds)

    def _pool(self, provider: str) -> _Pool:
        pool = self._pools.get(provider)
        if pool is None:
            pool = self._pools[provider] = _Pool(provider, self._max_waiting, self._window_s)
        return pool
