"""GRPO's checkpoints, written while training continues: a step waits for the copy alone."""

import logging
import shutil
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from assay_shared.errors import AssayError
from assay_trainer.config import RetentionConfig
from assay_trainer.curriculum.state import BatcherState
from assay_trainer.learner import checkpoint
from assay_trainer.learner.retention import forget_checkpoints
from assay_trainer.learner.updater import Updater
from assay_trainer.learner.writing.state_writer import NotWritten

_log = logging.getLogger(__name__)


class CheckpointWriter:
    """A writer of one checkpoint at a time; at the end of its block, none is in flight.

    A checkpoint becomes whole after all its files are on the disk and `release` was called: the
    event of its step comes first. Otherwise, a run killed in between would never record the step.
    """

    def __init__(self, checkpoints: Path, retention: RetentionConfig) -> None:
        self._checkpoints = checkpoints
        self._retention = retention
        self._pool = ThreadPoolExecutor(1, "checkpoint")
        self._in_flight: Future[float] | None = None
        self._written_s: float | None = None
        self._released = threading.Event()
        self._is_given_up = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._is_given_up = not self._released.is_set()
        self._released.set()
        self._pool.shutdown(wait=False)
        if error is not None and not isinstance(error, Exception):
            return  # a user who stops the run at once
        try:
            self.wait()
        except AssayError as own:
            if error is None:
                raise
            _log.error("the last checkpoint was not written: %s", own)

    def begin(
        self, updater: Updater, step: int, state: BatcherState, pass_rate: float | None
    ) -> None:
        """Copy the content of the checkpoint of `step`, and begin to write it.

        Waits for the checkpoint before. A whole checkpoint of `step` is not written again.

        Raises:
            NotWritten: the checkpoint before could not be written.
        """
        self.wait()
        folder = checkpoint.folder_of(self._checkpoints, step)
        if folder in checkpoint.whole(self._checkpoints):
            return
        shutil.rmtree(folder, ignore_errors=True)  # files of a run that was killed
        self._released.clear()
        started = time.monotonic()
        files = updater.save(folder)

        def complete() -> float:
            files.result()
            self._released.wait()
            if not self._is_given_up:
                self._complete(step, state, pass_rate)
            return time.monotonic() - started

        self._in_flight = self._pool.submit(complete)

    def _complete(self, step: int, state: BatcherState, pass_rate: float | None) -> None:
        keep = self._retention
        try:
            checkpoint.complete(self._checkpoints, step, state, pass_rate)
            forget_checkpoints(self._checkpoints, keep.checkpoints, keep_best=keep.best)
        except OSError as error:
            raise NotWritten.of(checkpoint.folder_of(self._checkpoints, step), error) from None

    def release(self) -> None:
        """Let the checkpoint in flight become whole."""
        self._released.set()

    def check(self) -> None:
        """Raise the error of a checkpoint that could not be written, without waiting for one.

        Raises:
            NotWritten: a checkpoint could not be written.
        """
        if self._in_flight is not None and self._in_flight.done():
            self.wait()

    def wait(self) -> None:
        """Wait until no checkpoint is in flight.

        Raises:
            NotWritten: a checkpoint could not be written.
        """
        in_flight, self._in_flight = self._in_flight, None
        if in_flight is not None:
            self._written_s = in_flight.result()

    def take_seconds(self) -> float | None:
        """Return the seconds from the copy until the last checkpoint was whole.

        None if no checkpoint has become whole since the call before.
        """
        self.check()
        seconds, self._written_s = self._written_s, None
        return seconds
