"""Ends a run at a safe point, after a signal or the loss of a process."""

import signal
from types import FrameType

from assay_shared.errors import AssayError


class Stopped(AssayError):
    """The run was asked to stop and did; it can be resumed."""


class Stop:
    """A request to stop."""

    def __init__(self) -> None:
        self._is_asked = False
        self._failure: AssayError | None = None

    @property
    def asked(self) -> bool:
        """Return True once the run is to end."""
        return self._is_asked or self._failure is not None

    def ask(self) -> None:
        """Ask for a stop."""
        self._is_asked = True

    def fail(self, error: AssayError) -> None:
        """End the run with `error`. Any thread may call this."""
        self._failure = error

    def listen(self) -> None:
        """Read SIGTERM and SIGINT as requests to stop.

        A second signal stops without a checkpoint, at the next Python code; a third ends the
        process at any point.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._obey)

    def _obey(self, number: int, frame: FrameType | None) -> None:
        if self._is_asked:
            for one in (signal.SIGTERM, signal.SIGINT):
                signal.signal(one, signal.SIG_DFL)
            raise KeyboardInterrupt("the run was stopped at once, without a checkpoint")
        self.ask()

    def check(self) -> None:
        """Raises the error of a failure, or Stopped if a stop was asked for."""
        if self._failure is not None:
            raise self._failure
        if self._is_asked:
            raise Stopped("the run was stopped", hint="resume it to continue")
