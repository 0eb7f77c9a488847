"""One folder per run: everything that is needed to read, resume or repeat it.

config.json        the resolved configuration, its git commit and package versions
status.json        stage, step, state and, at the end, the outcome
events.jsonl       what happened, one object a line (see `Event`)
tasks.jsonl        the tasks of the run with their roles
policy/v000001/    published weights, one folder a version
checkpoints/       what a resumed run starts from
rollouts.jsonl     every group that was trained on
failures/          tracebacks of unexpected ends, one file each
evaluation/        one file per evaluation, with every sample
rescored/          the same answers scored again, one comparison each time
report.md .html .json, figures/
.lock              the process that trains the run (see `run_lock`)
.reserve           room for the last words of a run that ends because the disk is full
"""

import json
import os
import re
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from assay_shared.errors import Conflict, InvalidInput, NotFound

#: What a run may be called: a folder's name that is safe in paths, addresses, logs and terminals.
RUN_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
_RESERVE = ".reserve"
_RESERVED_BYTES = 64 * 1024
_BLOCK_BYTES = 64 * 1024


class Event(BaseModel):
    """One line of events.jsonl. `kind` says which fields `data` has."""

    model_config = ConfigDict(frozen=True)

    time: float
    kind: str
    data: dict[str, JsonValue] = {}


class RunStatus(BaseModel):
    """status.json: where the run stands."""

    #: created, queued, running, stopped, failed, finished; `unreadable` where the file is damaged.
    state: str = "created"
    stage: str = ""
    step: int = 0
    num_steps: int = 0
    message: str = ""
    #: The process that trains the run, or trained it last.
    owner: str = ""
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
            InvalidInput: its name cannot be a run's.
        """
        check_run_name(path.name)
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
        """All events so far; a line that is not written to its end, or damaged, is left out."""
        if not self.events.exists():
            return
        with self.events.open("rb") as lines:
            for line in lines:
                event = read_event(line)
                if event is not None:
                    yield event

    def read_status(self) -> RunStatus:
        path = self.path / "status.json"
        return RunStatus.model_validate_json(path.read_text()) if path.exists() else RunStatus()

    def write_status(self, status: RunStatus) -> None:
        stamped = status.model_copy(update={"updated": time.time()})
        write_atomically(self.path / "status.json", stamped.model_dump_json(indent=2))

    def read_status_or_damage(self) -> RunStatus:
        """The status; state `unreadable`, with the reason, where status.json cannot be read."""
        try:
            return self.read_status()
        except (OSError, ValueError) as error:
            reason = "not a status" if isinstance(error, ValueError) else str(error)
            return RunStatus(state="unreadable", message=f"status.json cannot be read: {reason}")

    def reserve_room(self) -> None:
        """Keep some room on the disk for `release_room`."""
        reserve = self.path / _RESERVE
        if not reserve.exists() or reserve.stat().st_size < _RESERVED_BYTES:
            reserve.write_bytes(os.urandom(_RESERVED_BYTES))  # zeros could be stored as a hole

    def release_room(self) -> None:
        """Give the kept room back, so that the run's end can be written to a full disk."""
        (self.path / _RESERVE).unlink(missing_ok=True)


def check_run_name(name: str) -> None:
    """
    Raises:
        InvalidInput: no run can have this name.
    """
    if not re.fullmatch(RUN_NAME, name):
        raise InvalidInput(
            f"{name[:200]!r} is no name for a run",
            field="name",
            hint="letters, digits, '_', '.' and '-', 100 at most, a letter or digit first",
        )


def read_event(line: bytes) -> Event | None:
    """The event of a line of events.jsonl; None for a damaged line or one without its end."""
    if not line.endswith(b"\n"):
        return None
    try:
        return Event.model_validate_json(line)
    except ValidationError:
        return None


def append_line(path: Path, line: str) -> None:
    """Add one line: readers never see half of two, and a failed write leaves nothing behind.

    Raises:
        OSError: the line could not be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b", buffering=0) as file:
        size = _whole_lines(file)
        content = line.encode() + b"\n"
        try:
            while content:
                content = content[file.write(content) :]
        except OSError:
            file.truncate(size)
            raise


def _whole_lines(file: FileIO) -> int:
    """The size of the file without a last line that a killed process left half written."""
    size = end = file.seek(0, os.SEEK_END)
    if size > 0:
        file.seek(size - 1)
        if file.read(1) == b"\n":
            return size
    while end > 0:
        begin = max(0, end - _BLOCK_BYTES)
        file.seek(begin)
        at = file.read(end - begin).rfind(b"\n")
        if at >= 0:
            end = begin + at + 1
            break
        end = begin
    if end < size:
        file.truncate(end)
    return end


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
