"""Stopping a run between two steps: asked for by a signal, obeyed where it is safe."""

import signal
from types import FrameType

from assay_shared.errors import AssayError


class Stopped(AssayError):
    """The run was asked to stop and did; it can be resumed."""


class Stop:
    """Whether a stop was asked for."""

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        """Take SIGTERM and SIGINT as the wish to stop.

        A second one stops without a checkpoint, where Python code runs next; a third ends the
        process wherever it is.
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
            raise Stopped("the run was stopped", hint="resume it to go on")
