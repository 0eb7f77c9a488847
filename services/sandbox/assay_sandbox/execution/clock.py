"""The wall clock of a program."""

import asyncio
import time
from collections.abc import Callable


class Clock:
    """Ends a program that is over its wall time; `restart` gives it the whole time again.

    The timer only wakes: `catch_up` then reads what the program has said until now, which may have
    restarted the clock. A server that was late itself never ends a program early.
    """

    def __init__(
        self, limit_s: float, catch_up: Callable[[], None], on_end: Callable[[], None]
    ) -> None:
        self._limit_s = limit_s
        self._catch_up = catch_up
        self._on_end = on_end
        self._started = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(limit_s, self._wake)

    def _wake(self) -> None:
        self._catch_up()
        left_s = self._started + self._limit_s - time.monotonic()
        if left_s > 0:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._wake)
        else:
            self._on_end()

    def restart(self) -> None:
        self._started = time.monotonic()

    def stop(self) -> None:
        """Let nothing happen any more, and hold nothing of the program."""
        self._timer.cancel()
        self._catch_up = self._on_end = _do_nothing


def _do_nothing() -> None:
    """Stand for what a stopped clock would have called."""
