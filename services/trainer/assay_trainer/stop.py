"""Stops a run between two steps: a signal requests it, the run obeys at a safe point."""

import signal
from types import FrameType

from assay_shared.errors import AssayError


class Stopped(AssayError):
    """The run was asked to stop and did; it can be resumed."""


class Stop:
    """A request to stop."""

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        """Read SIGTERM and SIGINT as requests to stop.

        A second signal stops without a checkpoint, at the next Python code; a third ends the
        process at any point.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            for one in (signal.SIGTERM, signal.SIGINT):
                signal.signal(one, signal.SIG_DFL)
            raise KeyboardInterrupt("the run was stopped at once, without a checkpoint")
        self.asked = True

    def check(self) -> None:
        """Raises Stopped if a stop was asked for."""
        if self.asked:
            raise Stopped("the run was stopped", hint="resume it to continue")
