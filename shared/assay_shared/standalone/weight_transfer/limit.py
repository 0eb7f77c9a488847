"""How long a transfer may take, and how it fails."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
_POLL_S = 0.0005


class TransferFailed(Exception):
    """The weights did not arrive. `is_hung`: something of it may go on in the background."""

    def __init__(self, message: str, *, is_hung: bool = False) -> None:
        super().__init__(message)
        self.is_hung = is_hung


class Limit:
    """The time that is left, and whether somebody called the whole thing off."""

    def __init__(self, limit_s: float, cancelled: threading.Event | None = None) -> None:
        self._ends_at = time.monotonic() + limit_s
        self._limit_s = limit_s
        self._cancelled = cancelled or threading.Event()

    def renewed(self, limit_s: float) -> "Limit":
        """Another one from now on, which is called off with this one."""
        return Limit(limit_s, self._cancelled)

    def cancel(self) -> None:
        self._cancelled.set()

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())

    def check(self, waiting_for: str) -> None:
        """Raises TransferFailed when the time is over."""
        if self._cancelled.is_set():
            raise TransferFailed(f"called off while waiting for {waiting_for}")
        if self.remaining_s == 0:
            raise TransferFailed(f"{waiting_for} did not come within {self._limit_s:g} s")

    def wait_until(self, is_true: Callable[[], bool], waiting_for: str) -> None:
        while not is_true():
            self.check(waiting_for)
            time.sleep(_POLL_S)

    def within(self, action: Callable[[], Result], what: str) -> Result:
        """Call what has no limit of its own, in a thread that is left behind if it hangs."""
        outcome: list[Result] = []
        failure: list[BaseException] = []

        def run() -> None:
            try:
                outcome.append(action())
            except BaseException as error:  # noqa: BLE001  # raised again by the one who waits
                failure.append(error)

        thread = threading.Thread(target=run, name=f"weights: {what}", daemon=True)
        thread.start()
        try:
            self.wait_until(lambda: not thread.is_alive(), what)
        except TransferFailed as error:
            raise TransferFailed(str(error), is_hung=True) from error
        if failure:
            raise TransferFailed(f"{what} failed: {first_line(failure[0])}") from failure[0]
        return outcome[0]


def first_line(error: BaseException) -> str:
    """Of a message that may have a trace of the library's own in it."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]
