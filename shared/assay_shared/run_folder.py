"""One folder per run: everything that is needed to read, resume or repeat it.

config.json        the resolved configuration, its git commit and package versions
status.json        stage, step, state and, at the end, the outcome
events.jsonl       what happened, one object a line (see `Event`)
tasks.jsonl        the tasks of the run with their roles
policy/v000001/    published weights, one folder a version
checkpoints/       what a resumed run starts from
rollouts.jsonl     every group that was trained on
evaluation/        one file per evaluation, with every sample
rescored/          the same answers scored again, one comparison each time
report.md .html .json, figures/
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from assay_shared.errors import Conflict, NotFound


class Event(BaseModel):
    """One line of events.jsonl. `kind` says which fields `data` has."""

    model_config = ConfigDict(frozen=True)

    time: float
    kind: str
    data: dict[str, JsonValue] = {}


class RunStatus(BaseModel):
    """status.json: where the run stands."""

    state: str = "created"  # created, running, stopped, failed, finished
    stage: str = ""
    step: int = 0
    num_steps: int = 0
    message: str = ""
    updated: float = 0.0


class RunFolder:
    """Paths and records of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """A new folder at `path`.

        Raises:
            Conflict: it is there already.
        """
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise Conflict(
                f"{path} exists", hint="resume it with --resume, or choose another name"
            ) from None
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """The folder of a run that was started before.

        Raises:
            NotFound: there is no run at `path`.
        """
        if not (path / "config.json").is_file():
            raise NotFound(f"{path} is not a run folder: it has no config.json")
        return cls(path)

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def tasks(self) -> Path:
        return self.path / "tasks.jsonl"

    @property
    def rollouts(self) -> Path:
        return self.path / "rollouts.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def policies(self) -> Path:
        return self.path / "policy"

    def evaluation(self, name: str) -> Path:
        return self.path / "evaluation" / f"{name}.json"

    def record(self, kind: str, **data: JsonValue) -> Event:
        """Append an event; the line is in the file when this returns."""
        event = Event(time=time.time(), kind=kind, data=data)
        append_line(self.events, event.model_dump_json())
        return event

    def read_events(self) -> Iterator[Event]:
        """All events so far; a last line that is still being written is left out."""
        if self.events.exists():
            for line in self.events.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    yield Event.model_validate_json(line)

    def read_status(self) -> RunStatus:
        path = self.path / "status.json"
        return RunStatus.model_validate_json(path.read_text()) if path.exists() else RunStatus()

    def write_status(self, status: RunStatus) -> None:
        stamped = status.model_copy(update={"updated": time.time()})
        write_atomically(self.path / "status.json", stamped.model_dump_json(indent=2))


def append_line(path: Path, line: str) -> None:
    """Add one line in one write, so that readers never see half of two."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(line + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` as a whole: a reader sees the old text or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def write_json(path: Path, value: object) -> None:
    write_atomically(path, json.dumps(value, indent=2, default=str) + "\n")
