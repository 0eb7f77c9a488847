"""Short slices of work on the event loop, with time for other requests in between."""

import asyncio
import time
from collections import deque

_STRETCH_S = 0.005


class Pace:
    """Time slices for all computations on the event loop.

    Between two polls of the network, all computations together get a slice of 5 ms, and the last
    piece of work may exceed it. After the slice, a computation waits in a queue.
    """

    def __init__(self) -> None:
        self._ends_at = 0.0
        self._is_measured = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Return when the next piece of work may begin, usually at once."""
        now = time.monotonic()
        if now < self._ends_at:
            return
        loop = asyncio.get_running_loop()
        if not self._is_measured:
            self._begin(loop, now)
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _begin(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        self._is_measured = True
        self._ends_at = now + _STRETCH_S
        loop.call_soon(self._next)

    def _next(self) -> None:
        """Give the next slice to the first waiter, after the loop has polled the network."""
        self._is_measured = False
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._begin(asyncio.get_running_loop(), time.monotonic())
                return
