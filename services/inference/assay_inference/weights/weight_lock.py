"""A lock around an engine's weights: shared by requests, exclusive for new weights."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from assay_shared.errors import NotReady, TimedOut

_RETRY_AFTER_S = 2.0


class WeightLock:
    """A lock with three states: open, held (requests wait) or shut (requests fail).

    Use it on a single event loop.
    """

    def __init__(self, reason: str) -> None:
        """Start in the state shut, because of `reason`."""
        self._changed = asyncio.Condition()
        self._held = False
        self.shut_because: str | None = reason
        self.num_inside = 0

    @asynccontextmanager
    async def inside(self, num_sequences: int) -> AsyncIterator[None]:
        """Keep the weights unchanged within the block; wait first while the lock is held.

        Raises:
            NotReady: the lock is shut.
        """
        self.raise_if_shut()
        async with self._changed:
            await self._changed.wait_for(lambda: not self._held)
        self.raise_if_shut()
        self.num_inside += num_sequences
        try:
            yield
        finally:
            self.num_inside -= num_sequences
            await self._announce()

    def raise_if_shut(self) -> None:
        if self.shut_because is not None:
            raise NotReady(self.shut_because, retry_after_s=_RETRY_AFTER_S)

    async def hold(self, timeout_s: float) -> None:
        """Hold back new requests and wait until all running requests have left.

        Raises:
            TimedOut: some requests ran longer than `timeout_s`; the lock is no longer held.
        """
        self._held = True
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.num_inside == 0)
        except BaseException as error:
            self._held = False
            await self._announce()
            if isinstance(error, TimeoutError):
                raise TimedOut(
                    f"{self.num_inside} sequences still run after {timeout_s:g} s"
                ) from error
            raise

    async def open(self) -> None:
        self._held, self.shut_because = False, None
        await self._announce()

    async def shut(self, reason: str) -> None:
        self._held, self.shut_because = False, reason
        await self._announce()

    async def _announce(self) -> None:
        async with self._changed:
            self._changed.notify_all()
