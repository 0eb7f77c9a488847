"""A run as its stages see it: folder, configuration, settings, stop, and events."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import JsonValue

from assay_shared.runs.run_folder import Event, RunFolder
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.config import RunConfig
from assay_trainer.events import TaskSetAside
from assay_trainer.learner.ranks import Ranks
from assay_trainer.stop import Stop

_SCRATCH = ".scratch"


class RunContext:
    """A run's folder, configuration, settings, stop and ranks, and the record of its progress."""

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        settings: ServiceSettings,
        stop: Stop,
        ranks: Ranks,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self.folder = folder
        self.config = config
        self.settings = settings
        self.stop = stop
        self.ranks = ranks
        self._listeners = [on_event]
        self._status = folder.read_status()

    @property
    def name(self) -> str:
        return self.folder.path.name

    @property
    def step(self) -> int:
        """Steps done in the current stage, as the status file says."""
        return self._status.step

    @contextmanager
    def stage(self, name: str, num_steps: int = 0) -> Iterator[None]:
        """Record the start and the end of a stage around its work.

        Raises:
            Stopped: a stop was requested.
        """
        self.stop.check()
        self.set_status(stage=name, step=0, num_steps=num_steps)
        num_gpus = self.ranks.size if self.ranks.device.type == "cuda" else 0
        self.record("stage_started", stage=name, num_steps=num_steps, num_gpus=num_gpus)
        started = time.monotonic()
        yield
        self.record("stage_finished", stage=name, took_s=time.monotonic() - started)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a new folder within the run's, where inference reads; it ends with the block.

        After a kill it stays until `forget_scratch`.
        """
        parent = self.folder.path / _SCRATCH
        parent.mkdir(exist_ok=True)
        try:
            with TemporaryDirectory(dir=parent) as found:
                Path(found).chmod(0o755)  # inference may be another user
                yield Path(found)
        finally:
            with suppress(OSError):  # another block's folder is in it
                parent.rmdir()

    def forget_scratch(self) -> None:
        """Delete what killed attempts left; no block of `scratch` is under way."""
        shutil.rmtree(self.folder.path / _SCRATCH, ignore_errors=True)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Pass every later event to `listener` too."""
        self._listeners.append(listener)

    def record(self, kind: str, **data: JsonValue) -> None:
        """Append an event to the run's folder and pass it to the listeners."""
        event = self.folder.record(kind, **data)
        for listener in self._listeners:
            listener(event)

    def record_set_aside(self, task: TaskSetAside) -> None:
        """Record a task set aside from training or evaluation."""
        self.record("task_set_aside", **task.model_dump(mode="json"))

    def set_status(self, **changes: object) -> None:
        """Write the run's status file with `changes`."""
        self._status = self._status.model_copy(update=changes)
        self.folder.write_status(self._status)
