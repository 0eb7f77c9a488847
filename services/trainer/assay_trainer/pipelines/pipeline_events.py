"""events.jsonl of a pipeline, and the record of gates that a person has overruled."""

import json
import os
import time
from pathlib import Path

from assay_shared.types.wire import Wire


class Overruled(Wire):
    """A line of overruled.jsonl: a gate that does not stop the pipeline, and why."""

    stage: str
    inputs: str
    reason: str
    time: float


class PipelineLog:
    """Appends to a pipeline's events."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "events.jsonl"

    def record(self, event: str, **data: object) -> None:
        line = json.dumps({"time": time.time(), "kind": event, "data": data}, default=str)
        with self._file.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
