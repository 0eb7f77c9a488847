"""Limits on requests to providers, shared by all replicas and kept in Redis.

A script (`limits.lua`) takes all decisions, with the Redis server's clock. A request without room
waits in a queue in Redis. The call that makes room admits it, and tells its replica through the
replica's channel. A replica also asks again when the buckets have refilled, and once a second in
case a message was lost. It renews the leases of its places: the places of a killed replica come
back after `lease_s`.
"""

import asyncio
import copy
import json
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import redis
from pydantic import JsonValue

from assay_shared.errors import InfrastructureError, Overloaded, TimedOut, Unreachable
from assay_shared.providers.config import ProviderLimits
from assay_shared.providers.state.limits import (
    MAX_PAUSE_S,
    Grant,
    check_size,
    no_room,
    request_bucket,
    token_bucket,
)
from assay_shared.providers.state.redis_connection import connect, prefix_of, reaching

_PARTS = ("leases", "queue", "alive", "callers", "state")
_STANDINGS = {"+": "admitted", "-": "gone"}
_REFUSALS = {
    "full": "too many requests are waiting already",
    "gone": "other callers had fewer requests waiting",
}
_SCRIPT = Path(__file__).with_name("limits.lua")
_MAX_SILENCE_S = 1.0
#: Shortest wait before asking again: at high rates one call then admits several requests.
_MIN_SILENCE_S = 0.005
_MAX_LEFT = 1024

_log = logging.getLogger(__name__)


@dataclass
class _Lane:
    """This replica's requests to a provider: waiting, queued, held and given up."""

    provider: str
    keys: list[str]
    rules: str
    limits: ProviderLimits | None = None
    #: Futures of requests not admitted yet, and the tickets that Redis has confirmed as queued.
    waiting: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    queued: set[str] = field(default_factory=set)
    #: Tickets given up while Redis could not be told.
    left: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    timer: asyncio.TimerHandle | None = None
    renewal: asyncio.Task[None] | None = None
    renewing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def forget(self, ticket: str) -> None:
        self.waiting.pop(ticket, None)
        self.queued.discard(ticket)


class RedisLimits:
    """Implements `assay_shared.providers.state.limits.Limiter` for all replicas on one Redis.

    `window_s` is the window of the per-minute limits, in seconds. While Redis is unreachable no
    request is admitted. After `lease_s` without Redis, requests in flight may stop being counted
    until it is back.
    """

    def __init__(
        self,
        redis_url: str,
        user: str,
        *,
        max_waiting: int = 1024,
        window_s: float = 60.0,
        lease_s: float = 10.0,
        timeout_s: float = 2.0,
    ) -> None:
        self._prefix = prefix_of(user) + "limits:"
        self._replicas = self._prefix + "replica:"
        self._redis = connect(redis_url, timeout_s)
        self._script = self._redis.register_script(_SCRIPT.read_text())
        self._channel = self._redis.pubsub()
        self._is_open = False
        self._max_waiting = max_waiting
        self._window_s = window_s
        self._lease_s = lease_s
        self._replica = uuid.uuid4().hex
        self._numbers = count()
        self._lanes: dict[str, _Lane] = {}
        self._listener: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Subscribe to the replica's channel. Raises Unreachable or TimedOut without Redis."""
        with reaching():
            await self._channel.subscribe(self._replicas + self._replica)
        self._is_open = True
        self._listener = asyncio.create_task(self._listen())

    async def close(self) -> None:
        self._is_open = False
        for lane in self._lanes.values():
            if lane.timer is not None:
                lane.timer.cancel()
        tasks = [self._listener, *(lane.renewal for lane in self._lanes.values())]
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._channel.aclose()  # type: ignore[no-untyped-call]  # redis has no type here
        await self._redis.aclose()

    @asynccontextmanager
    async def admit(
        self, provider: str, limits: ProviderLimits, tokens: int, caller: str, deadline_s: float
    ) -> AsyncIterator[Grant]:
        check_size(provider, limits, tokens)
        lane = self._lane(provider, limits)
        ticket = f"{tokens}:{self._replica}:{next(self._numbers)}:{caller}"
        await self._enter(lane, ticket, deadline_s)
        grant = Grant(tokens, tokens)
        try:
            yield grant
        finally:
            await self._leave(lane, ticket, tokens_back=tokens - grant.used_tokens)

    async def pause(self, provider: str, seconds: float) -> None:
        lane = self._lane(provider)
        await self._run(lane, "pause", {"pause_ms": min(seconds, MAX_PAUSE_S) * 1000})

    async def _enter(self, lane: _Lane, ticket: str, deadline_s: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + deadline_s
        turn = lane.waiting[ticket] = loop.create_future()
        wait_s = 0.0
        try:
            asked: dict[str, JsonValue] = {"ticket": ticket, "deadline_ms": deadline_s * 1000}
            standing, wait_ms = await self._run(lane, "enter", asked)
            wait_s = wait_ms / 1000
            if standing == "late":
                raise _late(lane, deadline_s, wait_s)
            self._note(lane, ticket, standing)
            self._renew_in(lane, wait_s)
            async with asyncio.timeout_at(deadline):
                await turn
        except TimeoutError:
            await self._desert(lane, ticket)
            raise _late(lane, deadline_s, wait_s) from None
        except asyncio.CancelledError:
            await self._desert(lane, ticket)
            raise
        except (TimedOut, Unreachable):
            self._give_up(lane, ticket)
            raise
        finally:
            lane.forget(ticket)

    def _note(self, lane: _Lane, ticket: str, standing: str) -> None:
        """Record the standing of an own ticket: waiting, admitted or refused.

        Ignore a ticket with a known end.
        """
        turn = lane.waiting.get(ticket)
        if turn is None:
            return
        if standing == "waiting":
            lane.queued.add(ticket)
            return
        lane.forget(ticket)
        if standing == "admitted":
            lane.held.add(ticket)
            if not turn.done():
                turn.set_result(None)
        elif not turn.done():
            turn.set_exception(no_room(lane.provider, _REFUSALS[standing]))

    async def _desert(self, lane: _Lane, ticket: str) -> None:
        """Leave the queue, or give the place back if the request was admitted meanwhile."""
        lane.forget(ticket)  # first, otherwise a late message could still mark it as held
        tokens = int(ticket.partition(":")[0])
        await self._leave(lane, ticket, tokens_back=tokens, requests_back=1)

    async def _leave(
        self, lane: _Lane, ticket: str, *, tokens_back: int, requests_back: int = 0
    ) -> None:
        """Give back the ticket's place, tokens and requests."""
        lane.held.discard(ticket)
        async with lane.renewing:
            pass  # wait: a renewal in flight would bring the lease back
        asked: dict[str, JsonValue] = {
            "ticket": ticket,
            "tokens_back": tokens_back,
            "requests_back": requests_back,
        }
        try:
            await self._run(lane, "leave", asked)
        except InfrastructureError as error:
            _log.warning("%s: a place comes back later: %s", lane.provider, error)
            self._give_up(lane, ticket)

    def _give_up(self, lane: _Lane, ticket: str) -> None:
        """Return the ticket with the next renewal; its lease may have expired by then."""
        lane.left = [*lane.left[-_MAX_LEFT:], ticket]
        self._renew_in(lane, self._lease_s)

    def _renew_in(self, lane: _Lane, wait_s: float) -> None:
        """Renew after `wait_s`, when there may be room, but always before a held lease expires."""
        silence_s = min(self._lease_s / 3, _MAX_SILENCE_S if lane.waiting else self._lease_s)
        loop = asyncio.get_running_loop()
        due = loop.time() + max(_MIN_SILENCE_S, min(wait_s, silence_s))
        if lane.timer is not None:
            if lane.timer.when() <= due:
                return
            lane.timer.cancel()
        lane.timer = loop.call_at(due, self._start_renewal, lane)

    def _start_renewal(self, lane: _Lane) -> None:
        lane.timer = None
        if lane.renewing.locked():
            return  # the renewal in progress sets the next timer
        if lane.waiting or lane.held or lane.left:
            lane.renewal = asyncio.create_task(self._renew(lane))

    async def _renew(self, lane: _Lane) -> None:
        wait_s = self._lease_s
        async with lane.renewing:
            queued = list(lane.queued)
            left, lane.left = lane.left, []
            asked: dict[str, JsonValue] = {
                "held": [*lane.held],
                "waiting": [*queued],
                "left": [*left],
            }
            try:
                wait_ms, *standings = await self._run(lane, "renew", asked)
            except InfrastructureError as error:
                lane.left = [*left, *lane.left]
                for ticket in queued:
                    self._fail(lane, ticket, error)
            else:
                wait_s = wait_ms / 1000
                for ticket, standing in zip(queued, standings, strict=True):
                    self._note(lane, ticket, standing)
        self._renew_in(lane, wait_s)

    def _fail(self, lane: _Lane, ticket: str, error: InfrastructureError) -> None:
        turn = lane.waiting.get(ticket)
        lane.forget(ticket)
        if turn is not None and not turn.done():
            turn.set_exception(copy.copy(error))

    async def _listen(self) -> None:
        """Receive messages about own requests that other calls have admitted or evicted."""
        while self._is_open:  # the Redis client sometimes loses a cancellation
            try:
                message = await self._channel.get_message(True, timeout=_MAX_SILENCE_S)
            except redis.RedisError as error:
                _log.warning("no word from Redis about who is next: %s", error)
                await asyncio.sleep(_MAX_SILENCE_S)
                continue
            if message is not None:
                self._hear(message["data"])

    def _hear(self, message: str) -> None:
        standing, ticket = _STANDINGS[message[0]], message[1:]
        for lane in self._lanes.values():
            self._note(lane, ticket, standing)

    async def _run(self, lane: _Lane, operation: str, asked: dict[str, JsonValue]) -> Any:
        with reaching():
            return await self._script(lane.keys, [operation, lane.rules, json.dumps(asked)])

    def _lane(self, provider: str, limits: ProviderLimits | None = None) -> _Lane:
        lane = self._lanes.get(provider)
        if lane is None:
            keys = [f"{self._prefix}{provider}:{part}" for part in _PARTS]
            rules = self._rules(ProviderLimits())
            lane = self._lanes[provider] = _Lane(provider, keys, rules)
        if limits is not None and limits != lane.limits:
            lane.limits, lane.rules = limits, self._rules(limits)
        return lane

    def _rules(self, limits: ProviderLimits) -> str:
        """Return the script's parameters for these limits, as JSON."""
        buckets = {}
        if limits.requests_per_minute is not None:
            buckets["requests"] = request_bucket(limits.requests_per_minute, self._window_s)
        if limits.tokens_per_minute is not None:
            buckets["tokens"] = token_bucket(limits.tokens_per_minute, self._window_s)
        rules = {
            "buckets": {
                name: {"capacity": bucket.capacity, "per_ms": bucket.per_s / 1000}
                for name, bucket in buckets.items()
            },
            "lease_ms": self._lease_s * 1000,
            "max_waiting": self._max_waiting,
            "channel": self._replicas,
        }
        if limits.concurrency is not None:
            rules["concurrency"] = limits.concurrency
        return json.dumps(rules)


def _late(lane: _Lane, deadline_s: float, wait_s: float) -> Overloaded:
    return no_room(lane.provider, f"no room within {deadline_s:.3g} s", wait_s)
