"""Writes the state of a training to a folder while the training continues, each rank its shards."""

import warnings
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Self

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import save

from assay_shared.errors import InfrastructureError
from assay_trainer.learner.ranks import Ranks


class NotWritten(InfrastructureError):
    """A checkpoint could not be written; an earlier one is still whole."""

    @classmethod
    def of(cls, folder: Path, error: BaseException) -> Self:
        """Return the error about a checkpoint's folder."""
        return cls(
            f"{folder.name} could not be written: {type(error).__name__}: {error}",
            hint="see to the disk, then resume the run",
        )


class StateWriter:
    """A thread that writes copies of the state, one at a time.

    A copy is in the memory of this process's machine until it is written.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        on_gpu = ranks.device.type == "cuda"
        self._staging = StagingOptions(
            use_pinned_memory=on_gpu,
            use_shared_memory=False,
            use_async_staging=False,
            use_non_blocking_copy=on_gpu,
        )
        self._pool = ThreadPoolExecutor(1, "state")
        self._in_flight: Future[None] | None = None
        # A process alone writes a checkpoint alone.
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")

    def begin(self, state: Mapping[str, Any], folder: Path) -> Future[None]:
        """Copy the state, begin to write it, and return the future of all ranks' files.

        The future raises `NotWritten`, or `Unreachable` if another rank has ended. Waits for the
        future of the call before. Every rank calls this.
        """
        wait([self._in_flight] if self._in_flight else [])
        # torch 2.11's stager copies once, and then is closed.
        staged = DefaultStager(self._staging).stage(dict(state))
        self._in_flight = self._pool.submit(self._write, staged, folder)
        return self._in_flight

    def wait(self) -> None:
        """Wait for the last future, and raise its error."""
        if self._in_flight is not None:
            self._in_flight.result()

    def _write(self, state: Any, folder: Path) -> None:
        group = self._ranks.writing_group
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with torch.no_grad(), self._ranks.together():
                save(state, checkpoint_id=folder, process_group=group, no_dist=group is None)
        except CheckpointException as error:  # torch's kind of error is not an Exception
            first = next((one for one, _ in error.failures.values()), error)
            raise NotWritten.of(folder, first) from None
        except OSError as error:
            raise NotWritten.of(folder, error) from None
