"""Bounded concurrency with a bounded, fair queue; requests beyond the queue are refused at once."""

import asyncio
from collections import Counter, OrderedDict, deque

from assay_shared.errors import Overloaded


class FairLimiter:
    """A gate for at most `max_running` running and `max_waiting` waiting requests.

    Clients take turns, and the requests of a client are served in order. If the queue is full, a
    new request evicts the newest request of the client with the most waiting requests, provided
    this client has more waiting than the new request's client would have.

    A resting request lends its place to another, until `max_held` requests are inside. With
    `min_share`, a client may hold as many places as are free, and at least `min_share`, so that no
    client takes all places.
    """

    def __init__(
        self,
        max_running: int,
        max_waiting: float,
        *,
        max_held: int | None = None,
        min_share: int | None = None,
        max_wait_s: float = 600.0,
        retry_after_s: float = 1.0,
        refusal: type[Overloaded] = Overloaded,
    ) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._max_held = max_held or max_running
        self._min_share = self._max_held if min_share is None else min_share
        self._max_wait_s = max_wait_s
        self._retry_after_s = retry_after_s
        self._refusal = refusal
        #: The waiting requests of each client; the first client has the next turn.
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        #: Requests by client: inside (`_held`), and running (`_active`). `_num_woken` is the number
        #: of requests running again after a rest, even if no place was free.
        self._held: Counter[str] = Counter()
        self._active: Counter[str] = Counter()
        self._num_held = 0
        self._num_woken = 0
        self.num_running = 0
        self.num_waiting = 0

    @property
    def num_resting(self) -> int:
        return self._num_held - self.num_running

    def enter(self, client: str = "") -> "LimiterEntry":
        """Return a context manager; the block holds a place.

        Raises:
            Overloaded: the queue is full, or this request has waited for too long.
        """
        return LimiterEntry(self, client)

    async def take(self, client: str) -> "LimiterPlace":
        """Wait for a place and return it; the caller must give it back with `leave`."""
        if client not in self._queues and self._has_room_for(client):
            self._let_in(client)
        else:
            await self._wait(client)
        return LimiterPlace(self, client)

    def _has_room_for(self, client: str) -> bool:
        free = self._max_held - self._num_held
        own = self._held[client]
        if free <= 0 or own >= max(free, self._min_share):
            return False
        # More requests may resume from a rest than there are places. They delay new requests of
        # clients with running requests only; otherwise these clients would delay all others.
        counted = self.num_running if self._active[client] else self.num_running - self._num_woken
        return counted < self._max_running

    def _let_in(self, client: str) -> None:
        self._held[client] += 1
        self._num_held += 1
        self._run(client, 1)

    def _run(self, client: str, change: int) -> None:
        self.num_running += change
        self._active[client] += change
        if not self._active[client]:
            del self._active[client]

    def leave(self, place: "LimiterPlace") -> None:
        client = place.client
        self._num_held -= 1
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
        self._num_woken -= place.is_woken
        if not place.is_resting:
            self._run(client, -1)
        self._admit()

    def rest(self, place: "LimiterPlace") -> None:
        self._num_woken -= place.is_woken
        self._run(place.client, -1)
        self._admit()

    def resume(self, place: "LimiterPlace") -> None:
        self._num_woken += 1
        self._run(place.client, 1)

    def _admit(self) -> None:
        """Admit waiting requests as long as there is room."""
        while (client := self._next_client()) is not None:
            turn = self._queues[client][0]
            self._remove(client, turn)
            if client in self._queues:
                self._queues.move_to_end(client)
            if not turn.done():  # else its request was cancelled just now
                self._let_in(client)
                turn.set_result(None)

    def _next_client(self) -> str | None:
        if self._num_held >= self._max_held:
            return None
        return next((client for client in self._queues if self._has_room_for(client)), None)

    async def _wait(self, client: str) -> None:
        if self.num_waiting >= self._max_waiting:
            self._make_room(client)
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._queues.setdefault(client, deque()).append(turn)
        self.num_waiting += 1
        expiry = loop.call_later(self._max_wait_s, self._expire, client, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(client, turn)
            elif turn.exception() is None:
                self.leave(LimiterPlace(self, client))  # the request was admitted just before
            raise
        finally:
            expiry.cancel()

    def _expire(self, client: str, turn: asyncio.Future[None]) -> None:
        self._remove(client, turn)
        if not turn.done():
            turn.set_exception(self._refuse(f"no room within {self._max_wait_s} s"))

    def _make_room(self, client: str) -> None:
        """Evict the newest request of the client with the most waiting, or refuse this one.

        Raises:
            Overloaded: no other client has more requests waiting than this client would have.
        """
        own = len(self._queues.get(client, ()))
        greediest = max(self._queues, key=lambda name: len(self._queues[name]), default=client)
        if len(self._queues.get(greediest, ())) <= own + 1:
            raise self._refuse(f"{self.num_waiting} requests are waiting already")
        turn = self._queues[greediest][-1]
        self._remove(greediest, turn)
        turn.set_exception(self._refuse("other clients had fewer requests waiting"))

    def _remove(self, client: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(client, ())
        if turn not in queue:
            return
        self._queues[client].remove(turn)
        self.num_waiting -= 1
        if not self._queues[client]:
            del self._queues[client]

    def _refuse(self, message: str) -> Overloaded:
        return self._refusal(message, retry_after_s=self._retry_after_s)


class LimiterEntry:
    """Context manager that holds a place; costs half of a generator-based context manager."""

    __slots__ = ("_client", "_gate", "_place")

    def __init__(self, gate: FairLimiter, client: str) -> None:
        self._gate = gate
        self._client = client

    async def __aenter__(self) -> "LimiterPlace":
        self._place = await self._gate.take(self._client)
        return self._place

    async def __aexit__(self, *_: object) -> None:
        self._gate.leave(self._place)


class LimiterPlace:
    """The place of a request inside a gate."""

    def __init__(self, gate: FairLimiter, client: str) -> None:
        self._gate = gate
        self.client = client
        self.is_resting = False
        #: True once the request has resumed after a rest.
        self.is_woken = False

    def rest(self, is_resting: bool) -> None:
        """Lend the place to another request, or take it back even if no place is free."""
        if is_resting and not self.is_resting:
            self._gate.rest(self)
        elif not is_resting and self.is_resting:
            self._gate.resume(self)
        else:
            return
        self.is_resting, self.is_woken = is_resting, not is_resting
