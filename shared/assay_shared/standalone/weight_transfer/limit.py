"""Time limit and cancellation of a transfer, and its error."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
_POLL_S = 0.0005


class TransferFailed(Exception):
    """Failed transfer of weights. With `is_hung`, one of its threads may still run."""

    def __init__(self, message: str, *, is_hung: bool = False) -> None:
        super().__init__(message)
        self.is_hung = is_hung


class Limit:
    """Time limit of a transfer, with a flag to cancel it."""

    def __init__(self, limit_s: float, cancelled: threading.Event | None = None) -> None:
        self._ends_at = time.monotonic() + limit_s
        self._limit_s = limit_s
        self._cancelled = cancelled or threading.Event()

    def renewed(self, limit_s: float) -> "Limit":
        """Return a new limit from now on; cancelling either limit cancels both."""
        return Limit(limit_s, self._cancelled)

    def cancel(self) -> None:
        self._cancelled.set()

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())

    def check(self, waiting_for: str) -> None:
        """Raise TransferFailed if the transfer is cancelled or its time is over."""
        if self._cancelled.is_set():
            raise TransferFailed(f"cancelled while waiting for {waiting_for}")
        if self.remaining_s == 0:
            raise TransferFailed(f"{waiting_for} did not come within {self._limit_s:g} s")

    def wait_until(self, is_true: Callable[[], bool], waiting_for: str) -> None:
        while not is_true():
            self.check(waiting_for)
            time.sleep(_POLL_S)

    def within(self, action: Callable[[], Result], what: str) -> Result:
        """Return the result of `action`, run in a thread to limit its time.

        Raises:
            TransferFailed: `action` failed, or the transfer was cancelled or its time is over; the
                thread of a hanging action is abandoned.
        """
        outcome: list[Result] = []
        failure: list[BaseException] = []

        def run() -> None:
            try:
                outcome.append(action())
            except BaseException as error:  # noqa: BLE001  # raised again by the waiting thread
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
    """Return the first line of an error's message; libraries may append a trace to it."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]
