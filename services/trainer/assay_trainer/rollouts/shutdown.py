"""Work in flight at a worker's shutdown: finished in time, or requeued."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from assay_shared.errors import NotReady

Answer = TypeVar("Answer")


class Requeued(NotReady):
    """The worker stops before this was done; another is to do it."""


class InFlight:
    """Work in flight of several threads, each with its own event loop. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[asyncio.Task[Any], asyncio.AbstractEventLoop] = {}
        self._is_over = False

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Return the result of `work`.

        Raises:
            HandedBack: `hand_back` came first; the work was cancelled and has cleaned up.
        """
        try:
            return asyncio.run(self._listed(work))
        except asyncio.CancelledError:
            raise Requeued("the worker stops") from None

    async def _listed(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        task = asyncio.ensure_future(work)
        with self._lock:
            self._tasks[task] = asyncio.get_running_loop()
            if self._is_over:
                task.cancel()
        try:
            return await task
        finally:
            with self._lock:
                del self._tasks[task]

    def hand_back_in(self, grace_s: float) -> None:
        """Cancel the work still in flight after `grace_s`, and all later work."""
        timer = threading.Timer(grace_s, self.hand_back)
        timer.daemon = True
        timer.start()

    def hand_back(self) -> None:
        """Cancel the work in flight and all later work."""
        with self._lock:
            self._is_over = True
            for task, loop in self._tasks.items():
                loop.call_soon_threadsafe(task.cancel)
