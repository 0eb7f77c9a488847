"""Sharing of concurrent work: calls with the same key get the result of a single run."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclass
class _Flight(Generic[Result]):
    waiting: list[asyncio.Future[Result]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class SingleFlight(Generic[Result]):
    """Table of running work: at most one run per key, and all callers share its result.

    A cancelled caller does not stop the work for the other callers. When the last caller is
    cancelled, the work is cancelled.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[Result]] = {}

    async def run(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return the result of the running work for `key`; start `work` if none is running."""
        loop = asyncio.get_running_loop()
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight()
            flight.task = loop.create_task(self._fly(key, flight, work))
        result: asyncio.Future[Result] = loop.create_future()
        flight.waiting.append(result)
        try:
            return await result
        finally:
            flight.waiting.remove(result)
            if not flight.waiting and self._forget(key, flight) and flight.task is not None:
                flight.task.cancel()

    async def _fly(
        self,
        key: Hashable,
        flight: _Flight[Result],
        work: Callable[[], Coroutine[Any, Any, Result]],
    ) -> None:
        # Set the result of each caller here: `asyncio.shield` would cost another turn of the loop.
        try:
            found = await work()
        except BaseException as error:
            self._forget(key, flight)
            for one in _undone(flight.waiting):
                if isinstance(error, asyncio.CancelledError):
                    one.cancel()
                else:
                    one.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            self._forget(key, flight)
            for one in _undone(flight.waiting):
                one.set_result(found)

    def _forget(self, key: Hashable, flight: _Flight[Result]) -> bool:
        """Remove `flight`; return False if it was not the current flight of `key`."""
        if self._flights.get(key) is not flight:
            return False
        del self._flights[key]
        return True


def _undone(waiting: list[asyncio.Future[Result]]) -> list[asyncio.Future[Result]]:
    return [one for one in waiting if not one.done()]
