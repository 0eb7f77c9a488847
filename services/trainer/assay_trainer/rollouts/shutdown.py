"""A worker's event loop: all groups in flight share it, and at shutdown it hands groups back."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from assay_shared.errors import NotReady

Answer = TypeVar("Answer")
#: Threads for calls that block; a lost Redis keeps a call for some 20 seconds.
_THREADS = 32
_CLOSE_S = 5.0


class Requeued(NotReady):
    """The worker stops before this was done; another is to do it."""


class WorkLoop:
    """An event loop in its own thread, for the work of many threads. Use as `with`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="work", daemon=True)
        self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, "store"))
        self._entered = AsyncExitStack()
        #: Read and changed on the loop only.
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_over = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        """Cancel running work, so that no thread waits for it, and close all clients."""
        self._hand_back()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_S)
        await self._entered.aclose()

    def enter(self, manager: AbstractAsyncContextManager[Answer]) -> Answer:
        """Return what `manager` yields; it is left when the loop ends."""
        return self.run(self._entered.enter_async_context(manager))

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Do `work` on the loop, in this thread's context, and return its result.

        Raises:
            Requeued: `hand_back` came first; the work was cancelled and has cleaned up.
        """
        return asyncio.run_coroutine_threadsafe(self._listed(work), self._loop).result()

    async def _listed(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        if self._is_over:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            raise Requeued("the worker stops") from None
        finally:
            self._tasks.discard(task)

    def hand_back_in(self, grace_s: float) -> None:
        """Cancel the work still in flight after `grace_s`, and all later work."""
        self._loop.call_soon_threadsafe(self._loop.call_later, grace_s, self._hand_back)

    def hand_back(self) -> None:
        """Cancel the work in flight and all later work."""
        self._loop.call_soon_threadsafe(self._hand_back)

    def _hand_back(self) -> None:
        self._is_over = True
        for task in self._tasks:
            task.cancel()
