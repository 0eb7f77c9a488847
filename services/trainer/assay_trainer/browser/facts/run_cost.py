"""What a run cost, as far as its events tell: GPU hours, tokens, and money."""

import os
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from assay_shared.runs.regular_file import open_regular
from assay_shared.runs.run_folder import Event, read_event
from assay_trainer.browser.reading.lines import whole_lines

_MOST_LINE_BYTES = 16 * 2**20
_MOST_KEPT = 4096
_HOUR_S = 3600.0


@dataclass(frozen=True)
class RecordedCost:
    """Sums over all steps, those that a resume replaced too; None where no event tells.

    The GPU hours are those of the trainer's own GPUs while a stage runs.
    """

    gpu_hours: float | None = None
    tokens: int | None = None
    judge_tokens: int | None = None
    money: float | None = None
    #: False while events are left to read.
    is_whole: bool = True

    @property
    def told(self) -> str:
        """The cost in words; empty if nothing is known."""
        told = []
        if self.money:
            told.append(f"{self.money:,.2f} money")
        if self.gpu_hours is not None:
            told.append(f"{self.gpu_hours:,.2f} GPU hours")
        if self.tokens:
            told.append(f"{self.tokens:,} tokens")
        if self.judge_tokens:
            told.append(f"{self.judge_tokens:,} tokens of judges")
        return ", ".join(told) + ("" if self.is_whole or not told else " so far")

    @property
    def order(self) -> tuple[float, float, int]:
        """The key by which runs are sorted: money first, then GPU hours, then tokens."""
        return self.money or 0.0, self.gpu_hours or 0.0, self.tokens or 0


class RecordedCosts:
    """The costs of runs; each file is read on from where the last reading ended."""

    def __init__(self) -> None:
        self._meters: OrderedDict[Path, _CostMeter] = OrderedDict()

    def read(self, file: Path, deadline: float) -> RecordedCost:
        """Return the cost by a file of events, read until `deadline` (of `time.monotonic`)."""
        meter = self._meters.setdefault(file, _CostMeter())
        self._meters.move_to_end(file)
        while len(self._meters) > _MOST_KEPT:
            self._meters.popitem(last=False)
        try:
            return meter.read(file, deadline)
        except OSError:
            return RecordedCost()


class _CostMeter:
    """The sums over the events of one file so far."""

    def __init__(self) -> None:
        self._identity = (0, 0)
        self._forget()

    def _forget(self) -> None:
        self._position = 0
        self._gpu_s: float | None = None
        self._sums: dict[str, float] = {}
        #: GPUs of the stage that runs, and when the last event came.
        self._gpus: float | None = None
        self._last_at = 0.0

    def read(self, file: Path, deadline: float) -> RecordedCost:
        """Return the cost after the next events."""
        is_whole = True
        with open_regular(file) as content:
            status = os.fstat(content.fileno())
            if (status.st_dev, status.st_ino) != self._identity or status.st_size < self._position:
                self._forget()
                self._identity = status.st_dev, status.st_ino
            for line in whole_lines(content, self._position, _MOST_LINE_BYTES):
                if time.monotonic() > deadline:
                    is_whole = False
                    break
                self._position = line.offset + line.length
                event = None if line.problem else read_event(line.content)
                if event is not None:
                    self._take(event)
        return RecordedCost(
            gpu_hours=None if self._gpu_s is None else self._gpu_s / _HOUR_S,
            tokens=self._whole("num_tokens"),
            judge_tokens=self._whole("judge_tokens"),
            money=self._sums.get("judge_money"),
            is_whole=is_whole,
        )

    def _whole(self, name: str) -> int | None:
        return int(self._sums[name]) if name in self._sums else None

    def _take(self, event: Event) -> None:
        if event.kind == "stage_started":
            self._gpus = _number(event.data.get("num_gpus"))
            if self._gpus is not None and self._gpu_s is None:
                self._gpu_s = 0.0
        elif self._gpus is not None and self._gpu_s is not None:
            # A pause before the next stage_started does not count: the run was resumed later.
            self._gpu_s += self._gpus * max(0.0, event.time - self._last_at)
            if event.kind in ("stage_finished", "run_finished", "run_failed", "run_stopped"):
                self._gpus = None
        self._last_at = event.time
        if event.kind == "step":
            for name in ("num_tokens", "judge_tokens", "judge_money"):
                value = _number(event.data.get(name))
                if value is not None:
                    self._sums[name] = self._sums.get(name, 0.0) + value


def _number(value: JsonValue) -> float | None:
    """Return a number that can be summed; None of anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e18 else None  # type: ignore[arg-type,operator]
