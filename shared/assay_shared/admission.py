"""Bounded concurrency with a bounded, fair queue: what does not fit is refused at once."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from assay_shared.errors import Overloaded


class Gate:
    """Lets `max_running` in at a time and `max_waiting` queue.

    Clients take turns, each one's requests first come first served. Where the queue is full, a
    newcomer takes the place of the last request of the client that has most in it, if that is more
    than its own.
    """

    def __init__(
        self,
        max_running: int,
        max_waiting: int,
        *,
        max_wait_s: float = 600.0,
        retry_after_s: float = 1.0,
        refusal: type[Overloaded] = Overloaded,
    ) -> None:
        self._num_free = max_running
        self._max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._retry_after_s = retry_after_s
        self._refusal = refusal
        #: The waiting requests of each client; who is first has the next turn.
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.num_waiting = 0

    @asynccontextmanager
    async def enter(self, client: str = "") -> AsyncIterator[None]:
        """Hold one place.

        Raises:
            Overloaded: the queue is full, or this request has waited for too long.
        """
        if self._num_free > 0:
            self._num_free -= 1
        else:
            await self._wait(client)
        try:
            yield
        finally:
            self._leave()

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
                self._leave()  # its turn had come
            raise
        finally:
            expiry.cancel()

    def _expire(self, client: str, turn: asyncio.Future[None]) -> None:
        self._remove(client, turn)
        if not turn.done():
            turn.set_exception(self._refuse(f"no room within {self._max_wait_s} s"))

    def _make_room(self, client: str) -> None:
        """Refuse the newest request of the greediest client; this one, if that is its own."""
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

    def _leave(self) -> None:
        while self._queues:
            client, queue = next(iter(self._queues.items()))
            turn = queue[0]
            self._remove(client, turn)
            if client in self._queues:
                self._queues.move_to_end(client)
            if not turn.done():  # else who waited has left in this very moment
                turn.set_result(None)
                return
        self._num_free += 1

    def _refuse(self, message: str) -> Overloaded:
        return self._refusal(message, retry_after_s=self._retry_after_s)
