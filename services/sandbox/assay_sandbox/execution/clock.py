"""The wall clock of a program."""

import asyncio
import time
from collections.abc import Callable


class Clock:
    """Calls `on_end` when a program is over its wall time; `restart` grants the whole time again.

    When the timer fires, `catch_up` first reads the program's records until now: they may restart
    the clock. So a late server never ends a program early.
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
        """Cancel the timer and drop the callbacks, which refer to the program."""
        self._timer.cancel()
        self._catch_up = self._on_end = _do_nothing


def _do_nothing() -> None:
    """Replace both callbacks of a stopped clock."""
