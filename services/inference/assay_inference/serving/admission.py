"""Admission of requests to the engine: the queue, its deadlines and refusals, pauses and drains.

Admission keeps the engine full: a waiting request starts as soon as fewer sequences are in flight
than the engine takes, and fewer tokens than its cache holds. A request of a client with less than
its share in flight does not wait for larger requests of others: the engine mixes their sequences.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Histogram
from pydantic import BaseModel

from assay_inference.serving.fair_queue import PriorityQueue, Ticket
from assay_inference.settings import InferenceSettings
from assay_shared.errors import Conflict, NotReady, Overloaded
from assay_shared.telemetry import context
from assay_shared.telemetry.metrics import LATENCY_BUCKETS_S
from assay_shared.types import Priority

_RATE_WINDOW_S = 10.0
_LEAST_RETRY_AFTER_S, _MOST_RETRY_AFTER_S = 1.0, 60.0


class Door(StrEnum):
    """The state of admission.

    `open`; `paused`: nothing starts, requests wait; `draining`: new requests are refused.
    """

    OPEN = "open"
    PAUSED = "paused"
    DRAINING = "draining"


class AdmissionStatus(BaseModel):
    """The reply of `GET /v1/admission`. `pause_left_s`: seconds until the pause ends on its own."""

    state: Door
    num_running: int
    num_waiting: dict[Priority, int]
    pause_left_s: float | None = None


@dataclass(frozen=True)
class QueueLimits:
    """The limits of the queue.

    `capacity` returns the number of sequences that the engine takes at once, when it is called.
    `token_capacity` returns their maximum number of tokens, or None if the engine limits them.
    """

    capacity: Callable[[], int]
    max_waiting: int
    deadline_s: float
    max_pause_s: float
    order: tuple[Priority, ...] = tuple(Priority)
    reserved_share: float = 0.1
    token_capacity: Callable[[], int | None] = lambda: None

    @classmethod
    def of(
        cls,
        settings: InferenceSettings,
        max_sequences: Callable[[], int],
        max_tokens: Callable[[], int | None] = lambda: None,
    ) -> "QueueLimits":
        ahead = 1 + settings.inference_ahead_share

        def token_capacity() -> int | None:
            num_tokens = max_tokens()
            return None if num_tokens is None else round(num_tokens * ahead)

        return cls(
            capacity=lambda: round(max_sequences() * ahead),
            token_capacity=token_capacity,
            max_waiting=settings.inference_max_waiting,
            deadline_s=settings.inference_request_timeout_s,
            max_pause_s=settings.inference_max_pause_s,
            order=settings.priorities,
            reserved_share=settings.inference_reserved_share,
        )


class Rate:
    """The rate of sequences finished in the last 10 seconds."""

    def __init__(self) -> None:
        self._ended: deque[tuple[float, int]] = deque()
        self._num_sequences = 0

    def count(self, num_sequences: int) -> None:
        self._ended.append((time.monotonic(), num_sequences))
        self._num_sequences += num_sequences
        self._forget()

    def time_for(self, num_sequences: int) -> float:
        """Return the seconds needed for `num_sequences` at this rate, between 1 and 60.

        Without a finished sequence, it is 10.
        """
        self._forget()
        if not self._num_sequences:
            return _RATE_WINDOW_S
        needed = num_sequences * _RATE_WINDOW_S / self._num_sequences
        return min(max(needed, _LEAST_RETRY_AFTER_S), _MOST_RETRY_AFTER_S)

    def _forget(self) -> None:
        oldest = time.monotonic() - _RATE_WINDOW_S
        while self._ended and self._ended[0][0] < oldest:
            self._num_sequences -= self._ended.popleft()[1]


@dataclass
class HeldRoom:
    """What a client has in flight: sequences, and tokens of the cache."""

    num_sequences: int = 0
    num_cached: int = 0

    def add(self, ticket: Ticket, times: int) -> None:
        self.num_sequences += times * ticket.num_sequences
        self.num_cached += times * ticket.num_cached


class Admission:
    """The queue of all requests. Use it on a single event loop."""

    def __init__(self, limits: QueueLimits, registry: CollectorRegistry) -> None:
        self._limits = limits
        self._queue = PriorityQueue(limits.order, limits.reserved_share)
        self._rate = Rate()
        self._state = Door.OPEN
        self._left = asyncio.Event()
        self._pause_ends: asyncio.TimerHandle | None = None
        self.num_running = 0
        self._num_cached = 0
        #: What each client has in flight.
        self._held: dict[str, HeldRoom] = {}
        self._wait_s = Histogram(
            "assay_inference_wait_seconds",
            "Time in the queue of a request that started.",
            ["priority"],
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self._refused = Counter(
            "assay_inference_refused_total",
            "Requests refused or abandoned before sampling began.",
            ["reason", "priority"],
            registry=registry,
        )

    @property
    def waiting(self) -> dict[Priority, int]:
        """Numbers of waiting sequences, by priority."""
        return self._queue.by_priority

    @property
    def status(self) -> AdmissionStatus:
        ends = self._pause_ends
        left = None if ends is None else max(0.0, ends.when() - asyncio.get_running_loop().time())
        return AdmissionStatus(
            state=self._state,
            num_running=self.num_running,
            num_waiting=self.waiting,
            pause_left_s=left,
        )

    @asynccontextmanager
    async def enter(
        self, num_sequences: int, num_tokens: int, num_cached: int = 0
    ) -> AsyncIterator[None]:
        """Wait for a turn, then hold room in the engine for the block.

        Priority, client, run and deadline are read from the context.

        Raises:
            Overloaded: the queue is full, or the deadline passed before the turn.
            NotReady: the service is being drained.
        """
        purpose = context.purpose()
        ticket = self._ticket(num_sequences, num_tokens, num_cached)
        priority = ticket.priority
        if self._state is Door.OPEN and not self._queue.num_sequences and self._may_start(ticket):
            self._start(ticket)
            self._wait_s.labels(priority).observe(0.0)
        else:
            await self._wait(ticket, purpose.deadline_s or self._limits.deadline_s)
        try:
            yield
        finally:
            self._leave(ticket)

    def check_open(self, num_sequences: int) -> None:
        """Refuse a request that `enter` would refuse at once, before any work is done for it.

        Raises:
            Overloaded: the queue is full.
            NotReady: the service is being drained.
        """
        ticket = self._ticket(num_sequences, 0)
        num_waiting = self._queue.num_sequences
        is_full = num_waiting and num_waiting + num_sequences > self._limits.max_waiting
        if is_full and self._queue.displaced_by(ticket, self._limits.max_waiting) is None:
            raise self._refuse(ticket, "queue_full", "too many sequences wait already")

    def _ticket(self, num_sequences: int, num_tokens: int, num_cached: int = 0) -> Ticket:
        """Return a ticket for the caller in the context. Raises NotReady in a drain."""
        purpose = context.purpose()
        priority = Priority(purpose.priority or Priority.INTERACTIVE)
        if self._state is Door.DRAINING:
            self._refused.labels("draining", priority).inc()
            raise NotReady("the service is draining", retry_after_s=self._retry_after_s())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return Ticket(
            priority,
            context.client(),
            purpose.run,
            num_sequences,
            num_tokens,
            turn,
            num_cached,
        )

    async def _wait(self, ticket: Ticket, deadline_s: float) -> None:
        self._make_room(ticket)
        self._queue.push(ticket)
        self._start_waiting()
        started = time.monotonic()
        expiry = asyncio.get_running_loop().call_later(deadline_s, self._expire, ticket, deadline_s)
        try:
            await ticket.turn
        except asyncio.CancelledError:
            if ticket.turn.cancelled():
                self._queue.remove(ticket)
                self._refused.labels("client_gone", ticket.priority).inc()
                self._announce()
            elif ticket.turn.exception() is None:  # it was admitted at the same moment
                self._leave(ticket)
            raise
        finally:
            expiry.cancel()
        self._wait_s.labels(ticket.priority).observe(time.monotonic() - started)

    def _make_room(self, ticket: Ticket) -> None:
        """Evict others if the queue is full; refuse this ticket if none of them must leave."""
        if self._queue.num_sequences + ticket.num_sequences <= self._limits.max_waiting:
            return
        if not self._queue.num_sequences and self._limits.max_waiting:
            return  # larger than the whole queue: it may wait alone, otherwise it could never run
        leaving = self._queue.displaced_by(ticket, self._limits.max_waiting)
        if leaving is None:
            raise self._refuse(ticket, "queue_full", "too many sequences wait already")
        for other in leaving:
            self._queue.remove(other)
            other.turn.set_exception(self._refuse(other, "displaced", "others come first"))

    def _expire(self, ticket: Ticket, deadline_s: float) -> None:
        if not ticket.turn.done():
            self._queue.remove(ticket)
            message = f"it could not start within {deadline_s:g} s"
            ticket.turn.set_exception(self._refuse(ticket, "deadline", message))
            self._announce()

    def _refuse(self, ticket: Ticket, reason: str, message: str) -> Overloaded:
        self._refused.labels(reason, ticket.priority).inc()
        return Overloaded(message, retry_after_s=self._retry_after_s(ticket.num_sequences))

    def _retry_after_s(self, num_more: int = 0) -> float:
        return self._rate.time_for(self._queue.num_sequences + self.num_running + num_more)

    def _may_start(self, ticket: Ticket) -> bool:
        """Return True if the engine has room, or if the client has less than its share of it."""
        capacity, most = self._limits.capacity(), self._limits.token_capacity()
        if self.num_running < capacity and (most is None or self._num_cached < most):
            return True
        held = self._held.get(ticket.client, HeldRoom())
        num_clients = len(self._held.keys() | {ticket.client})
        return (
            num_clients <= capacity
            and held.num_sequences * num_clients < capacity
            and (most is None or held.num_cached * num_clients < most)
        )

    def _start(self, ticket: Ticket) -> None:
        self.num_running += ticket.num_sequences
        self._num_cached += ticket.num_cached
        self._held.setdefault(ticket.client, HeldRoom()).add(ticket, 1)

    def _start_waiting(self) -> None:
        while self._state is not Door.PAUSED:
            ticket = self._queue.pop(self._may_start)
            if ticket is None:
                return
            if not ticket.turn.done():  # otherwise it was cancelled at the same moment
                self._start(ticket)
                ticket.turn.set_result(None)

    def _leave(self, ticket: Ticket) -> None:
        self.num_running -= ticket.num_sequences
        self._num_cached -= ticket.num_cached
        held = self._held[ticket.client]
        held.add(ticket, -1)
        if not held.num_sequences:
            del self._held[ticket.client]
        self._rate.count(ticket.num_sequences)
        self._start_waiting()
        self._announce()

    def _announce(self) -> None:
        """Wake the pauses and drains waiting for an idle engine."""
        self._left.set()
        self._left.clear()

    # Pause and drain

    def not_ready_because(self) -> str | None:
        return "the service is draining" if self._state is Door.DRAINING else None

    async def pause(self, wait_s: float) -> AdmissionStatus:
        """Start no more requests; wait at most `wait_s` for running ones; return the status.

        A second call restarts the pause's maximum time.

        Raises:
            Conflict: the service is being drained.
        """
        if self._state is Door.DRAINING:
            raise Conflict("the service is draining", hint="POST /v1/resume ends that")
        self._change(Door.PAUSED)
        loop = asyncio.get_running_loop()
        self._pause_ends = loop.call_later(self._limits.max_pause_s, self.resume)
        await self._until(lambda: self.num_running == 0 or self._state is not Door.PAUSED, wait_s)
        return self.status

    def resume(self) -> AdmissionStatus:
        """End a pause or a drain and return the status."""
        self._change(Door.OPEN)
        self._start_waiting()
        return self.status

    async def drain(self, wait_s: float) -> AdmissionStatus:
        """Refuse new requests; wait at most `wait_s` for the others; return the status."""
        self._change(Door.DRAINING)
        self._start_waiting()
        await self._until(
            lambda: (
                self._state is not Door.DRAINING
                or self.num_running + self._queue.num_sequences == 0
            ),
            wait_s,
        )
        return self.status

    def _change(self, state: Door) -> None:
        self._state = state
        if self._pause_ends is not None:
            self._pause_ends.cancel()
            self._pause_ends = None
        self._announce()

    async def _until(self, is_so: Callable[[], bool], wait_s: float) -> None:
        with contextlib.suppress(TimeoutError):  # the returned status shows the remaining requests
            async with asyncio.timeout(wait_s):
                while not is_so():
                    await self._left.wait()
