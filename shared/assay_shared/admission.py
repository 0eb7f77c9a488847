"""Bounded concurrency with a bounded queue: what does not fit is refused at once, with a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from assay_shared.errors import Overloaded


class Gate:
    """Lets `max_running` in at a time and `max_waiting` queue, first come first served."""

    def __init__(self, max_running: int, max_waiting: int, retry_after_s: float = 1.0) -> None:
        self._max_waiting = max_waiting
        self._retry_after_s = retry_after_s
        self._slots = asyncio.Semaphore(max_running)
        self.num_waiting = 0

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Hold one slot.

        Raises:
            Overloaded: the queue is full.
        """
        await self._take_slot()
        try:
            yield
        finally:
            self._slots.release()

    async def _take_slot(self) -> None:
        if self._slots.locked() and self.num_waiting >= self._max_waiting:
            raise Overloaded(
                f"{self.num_waiting} requests are waiting already",
                retry_after_s=self._retry_after_s,
            )
        self.num_waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.num_waiting -= 1
