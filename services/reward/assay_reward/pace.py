"""Short stretches of work on the event loop, so that it answers others in between."""

import asyncio
import time
from collections import deque

_STRETCH_S = 0.005


class Pace:
    """Shares the event loop among all that compute on it.

    Between two looks at the network, everybody together works for a stretch of 5 ms, and for what
    the last piece of work takes longer. Who finds the stretch used up waits in a queue.
    """

    def __init__(self) -> None:
        self._ends_at = 0.0
        self._is_measured = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Return when the next piece of work may begin; mostly at once."""
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
        """Give the next stretch to the first in the queue, after the loop's look around."""
        self._is_measured = False
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._begin(asyncio.get_running_loop(), time.monotonic())
                return
