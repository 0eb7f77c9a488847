"""Bounded concurrency with a bounded, fair queue; requests beyond the queue are refused at once."""

import asyncio
from collections import Counter, OrderedDict, deque

from assay_shared.errors import Overloaded


class FairLimiter:
    """A gate for at most `max_running` running and `max_waiting` waiting calls.

    Clients take turns; so do the requests of a client, and the calls of a request are served in
    order. A request with a thousand calls therefore delays no other request by more than a turn.
    If the queue is full, a new call evicts the newest call of the client with the most waiting
    calls, provided this client has more waiting than the new call's client would have.

    A resting call lends its place to another, until `max_held` calls are inside. With `min_share`,
    a client may hold as many places as are free, and at least `min_share`, so that no client takes
    all places.
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
        #: The waiting calls of each client; the first client has the next turn.
        self._queues: OrderedDict[str, _Queue] = OrderedDict()
        #: Calls by client: inside (`_held`), and running (`_active`). `_num_woken` is the number
        #: of calls running again after a rest, even if no place was free.
        self._held: Counter[str] = Counter()
        self._active: Counter[str] = Counter()
        self._num_held = 0
        self._num_woken = 0
        self.num_running = 0
        self.num_waiting = 0

    @property
    def num_resting(self) -> int:
        return self._num_held - self.num_running

    def enter(self, client: str = "", request: str | None = None) -> "LimiterEntry":
        """Return a context manager; the block holds a place.

        Raises:
            Overloaded: the queue is full, or this call has waited for too long.
        """
        return LimiterEntry(self, client, request)

    async def take(self, client: str, request: str | None = None) -> "LimiterPlace":
        """Wait for a place and return it; the caller must give it back with `leave`."""
        if client not in self._queues and self._has_room_for(client):
            self._let_in(client)
        else:
            await self._wait(client, request)
        return LimiterPlace(self, client)

    def _has_room_for(self, client: str) -> bool:
        free = self._max_held - self._num_held
        own = self._held[client]
        if free <= 0 or own >= max(free, self._min_share):
            return False
        # More calls may resume from a rest than there are places. They delay new calls of
        # clients with running calls only; otherwise these clients would delay all others.
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
        """Admit waiting calls as long as there is room."""
        while (client := self._next_client()) is not None:
            queue = self._queues.pop(client)
            turn = queue.pop_next()
            self.num_waiting -= 1
            if queue:
                self._queues[client] = queue  # at the end
            if not turn.done():  # else its call was cancelled just now
                self._let_in(client)
                turn.set_result(None)

    def _next_client(self) -> str | None:
        if self._num_held >= self._max_held:
            return None
        return next((client for client in self._queues if self._has_room_for(client)), None)

    async def _wait(self, client: str, request: str | None) -> None:
        if self.num_waiting >= self._max_waiting:
            self._make_room(client)
        loop = asyncio.get_running_loop()
        turn = _Turn(request, loop=loop)
        self._queues.setdefault(client, _Queue()).append(turn)
        self.num_waiting += 1
        expiry = loop.call_later(self._max_wait_s, self._expire, client, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(client, turn)
            elif turn.exception() is None:
                self.leave(LimiterPlace(self, client))  # the call was admitted just before
            raise
        finally:
            expiry.cancel()

    def _expire(self, client: str, turn: "_Turn") -> None:
        self._remove(client, turn)
        if not turn.done():
            turn.set_exception(self._refuse(f"no room within {self._max_wait_s} s"))

    def _make_room(self, client: str) -> None:
        """Evict the newest call of the client with the most waiting, or refuse this one.

        Raises:
            Overloaded: no other client has more calls waiting than this client would have.
        """
        own = len(self._queues.get(client, ()))
        greediest = max(self._queues, key=lambda name: len(self._queues[name]), default=client)
        if len(self._queues.get(greediest, ())) <= own + 1:
            raise self._refuse(f"{self.num_waiting} requests are waiting already")
        turn = self._queues[greediest].newest()
        self._remove(greediest, turn)
        turn.set_exception(self._refuse("other clients had fewer requests waiting"))

    def _remove(self, client: str, turn: "_Turn") -> None:
        queue = self._queues.get(client)
        if queue is None or not queue.remove(turn):
            return
        self.num_waiting -= 1
        if not queue:
            del self._queues[client]

    def _refuse(self, message: str) -> Overloaded:
        return self._refusal(message, retry_after_s=self._retry_after_s)


class _Turn(asyncio.Future[None]):
    """The wait of a call of `request`; done once the call is admitted or refused."""

    def __init__(self, request: str | None, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.request = request


class _Queue:
    """The waiting calls of a client: requests take turns, the calls of each are in order."""

    def __init__(self) -> None:
        self._requests: OrderedDict[str | None, deque[_Turn]] = OrderedDict()
        self._num = 0

    def __len__(self) -> int:
        return self._num

    def append(self, turn: _Turn) -> None:
        self._requests.setdefault(turn.request, deque()).append(turn)
        self._num += 1

    def pop_next(self) -> _Turn:
        """Remove and return the first call of the next request."""
        request, turns = self._requests.popitem(last=False)
        self._num -= 1
        turn = turns.popleft()
        if turns:
            self._requests[request] = turns  # at the end
        return turn

    def newest(self) -> _Turn:
        """Return the newest call of the request with the most waiting calls."""
        return max(self._requests.values(), key=len)[-1]

    def remove(self, turn: _Turn) -> bool:
        """Remove `turn`; return False if it is not in the queue."""
        turns = self._requests.get(turn.request)
        if turns is None or turn not in turns:
            return False
        turns.remove(turn)
        self._num -= 1
        if not turns:
            del self._requests[turn.request]
        return True


class LimiterEntry:
    """Context manager that holds a place; costs half of a generator-based context manager."""

    __slots__ = ("_client", "_gate", "_place", "_request")

    def __init__(self, gate: FairLimiter, client: str, request: str | None) -> None:
        self._gate = gate
        self._client = client
        self._request = request

    async def __aenter__(self) -> "LimiterPlace":
        self._place = await self._gate.take(self._client, self._request)
        return self._place

    async def __aexit__(self, *_: object) -> None:
        self._gate.leave(self._place)


class LimiterPlace:
    """The place of a call inside a gate."""

    def __init__(self, gate: FairLimiter, client: str) -> None:
        self._gate = gate
        self.client = client
        self.is_resting = False
        #: True once the call has resumed after a rest.
        self.is_woken = False

    def rest(self, is_resting: bool) -> None:
        """Lend the place to another call, or take it back even if no place is free."""
        if is_resting and not self.is_resting:
            self._gate.rest(self)
        elif not is_resting and self.is_resting:
            self._gate.resume(self)
        else:
            return
        self.is_resting, self.is_woken = is_resting, not is_resting
