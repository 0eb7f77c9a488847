"""A run of GRPO on GSM8K in a separate process, for a given time: see `bench.gsm8k_vs_trl`."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay_shared.runs.run_folder import RunFolder

_POLL_S, _END_LIMIT_S = 0.2, 120.0


class Training:
    """A run that has been started, and its process."""

    def __init__(self, run: Path, process: subprocess.Popen[bytes]) -> None:
        self.run = RunFolder(run)
        self._process = process

    def wait_until(self, second: float, scored: Sequence[Future[Any]] = ()) -> None:
        """Wait until GRPO has run for this time.

        Raises:
            SystemExit: training ended before.
            Exception: the error of a future, at once.
        """
        while (began := self._began()) is None or time.time() - began < second:
            for one in scored:
                if one.done():
                    one.result()
            if self._process.poll() is not None:
                raise SystemExit(f"training ended early, with {self._process.returncode}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End the run after its step, with a checkpoint."""
        self._process.terminate()
        self._process.wait(_END_LIMIT_S)

    def steps(self) -> list[dict[str, Any]]:
        """Return the data of each finished step, with `seconds` since GRPO began."""
        began = self._began()
        assert began is not None
        return [
            one.data | {"seconds": round(one.time - began, 1)}
            for one in self.run.read_events()
            if one.kind == "step"
        ]

    def _began(self) -> float | None:
        begun = (
            one.time
            for one in self.run.read_events()
            if one.kind == "stage_started" and one.data["stage"] == "grpo"
        )
        return next(begun, None)


@contextmanager
def training(start: Path, run: Path, settings: Sequence[str]) -> Iterator[Training]:
    """Yield a run that begins at the model in `start`; it ends with the block at the latest."""
    file = Path(__file__).with_name("gsm8k_smollm2.yaml")
    given = (f"policy.folder={start}", "sft=null", "grpo.steps=100000", *settings)
    asked = ("train", str(file), *given, "--folder", str(run))
    process = subprocess.Popen([sys.executable, "-m", "assay_shared.cli", *asked])
    try:
        yield Training(run, process)
    finally:
        process.kill()
        process.wait()
