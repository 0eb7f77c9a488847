"""What a worker has in hand when it is told to stop: finished in time, or handed back."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from assay_shared.errors import NotReady

Answer = TypeVar("Answer")


class Requeued(NotReady):
    """The worker stops before this was done; another is to do it."""


class InFlight:
    """Work of several threads, each in an event loop of its own. Safe for use from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[asyncio.Task[Any], asyncio.AbstractEventLoop] = {}
        self._is_over = False

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """What `work` returns.

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
        """Cancel what is still in hand after `grace_s`, and all that comes later."""
        timer = threading.Timer(grace_s, self.hand_back)
        timer.daemon = True
        timer.start()

    def hand_back(self) -> None:
        """Cancel what is in hand, and all that comes later."""
        with self._lock:
            self._is_over = True
            for task, loop in self._tasks.items():
                loop.call_soon_threadsafe(task.cancel)
