"""Work that many ask for at once is done once."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclass
class _Flight(Generic[Result]):
    task: asyncio.Task[Result]
    num_waiting: int = 0


class SingleFlight(Generic[Result]):
    """Runs one piece of work per key at a time; whoever asks meanwhile shares its result.

    One who stops waiting does not stop the work for the others; the last one does.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[Result]] = {}

    async def run(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of the work that is under way for `key`, or is begun with `work`."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(work()))
        flight.num_waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.num_waiting -= 1
            if flight.num_waiting == 0:
                flight.task.cancel()
            if flight.num_waiting == 0 or flight.task.done():
                self._forget(key, flight)

    def _forget(self, key: Hashable, flight: _Flight[Result]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
