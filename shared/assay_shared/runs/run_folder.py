"""One folder per run: everything needed to read, resume or repeat the run.

config.json        the resolved configuration, its git commit and package versions
status.json        stage, step, state and, at the end, the outcome
events.jsonl       events of the run, an object a line (see `Event`)
tasks.jsonl        the tasks of the run with their roles
sets/              the manifests of imported sets
policy/v000001/    published weights, a folder per version
checkpoints/       starting points of a resumed run
rollouts.jsonl     every group used for training
discarded.jsonl    every group that was not trained on, with the reason
signal.json        groups sampled before GRPO
tensorboard/       numbers of each step
failures/          tracebacks of unexpected ends, a file each
evaluation/        a file per evaluation, with every sample; tiers/ has those of the tiers
best_checkpoint.json  the best checkpoint by a held-out metric, and each measured one
rescored/          comparisons of old and new scores of the same answers
report.md .html .json, figures/
.lock              the owner of the run (see `run_lock`)
.reserve           reserved space for the last records of a run on a full disk
"""

import json
import os
import re
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from assay_shared.errors import ConfigError, Conflict, InvalidInput, NotFound
from assay_shared.runs.regular_file import read_regular, reason_of

#: Pattern of a run's name: a folder name that is safe in paths, addresses, logs and terminals.
RUN_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
_RESERVE = ".reserve"
_RESERVED_BYTES = 64 * 1024
_BLOCK_BYTES = 64 * 1024
_MOST_STATUS_BYTES = 2**20


class Event(BaseModel):
    """A line of events.jsonl. `kind` determines the fields of `data`."""

    model_config = ConfigDict(frozen=True)

    time: float
    kind: str
    data: dict[str, JsonValue] = {}


class RunStatus(BaseModel):
    """Content of status.json: state, stage and step of the run."""

    #: created, queued, running, stopped, failed, finished; `unreadable` if the file is damaged.
    state: str = "created"
    stage: str = ""
    step: int = 0
    num_steps: int = 0
    message: str = ""
    #: The process that trains the run or last trained it.
    owner: str = ""
    updated: float = 0.0


class RunFolder:
    """Paths and records of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """Create and return a new run folder.

        Raises:
            Conflict: `path` exists.
            InvalidInput: the folder's name is not a valid run name.
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
        """Return the folder of an existing run.

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

    def read_config(self) -> dict[str, Any]:
        """Return the content of config.json; `config` has the resolved configuration.

        Raises:
            ConfigError: the file is damaged.
        """
        try:
            content = json.loads(self.config.read_bytes())
            if not isinstance(content["config"], dict):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise ConfigError(
                f"{self.config} is damaged: it has no configuration of a run",
                hint="restore the run from a backup, or begin a new one",
            ) from None
        found: dict[str, Any] = content
        return found

    @property
    def tasks(self) -> Path:
        return self.path / "tasks.jsonl"

    def set_manifest(self, name: str) -> Path:
        """Return the place of the manifest of a set: training, held-out, ..."""
        return self.path / "sets" / f"{name}.json"

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
        """Append an event and return it; the line is then in the file."""
        event = Event(time=time.time(), kind=kind, data=data)
        append_line(self.events, event.model_dump_json())
        return event

    def read_events(self) -> Iterator[Event]:
        """Yield all events so far; skip damaged and incomplete lines."""
        if not self.events.exists():
            return
        with self.events.open("rb") as lines:
            for line in lines:
                event = read_event(line)
                if event is not None:
                    yield event

    def read_status(self) -> RunStatus:
        path = self.path / "status.json"
        if not path.exists():
            return RunStatus()
        return RunStatus.model_validate_json(read_regular(path, _MOST_STATUS_BYTES))

    def write_status(self, status: RunStatus) -> None:
        stamped = status.model_copy(update={"updated": time.time()})
        write_atomically(self.path / "status.json", stamped.model_dump_json(indent=2))

    def read_status_or_damage(self) -> RunStatus:
        """Return the status, or state `unreadable` with the reason if it cannot be read."""
        try:
            return self.read_status()
        except (OSError, ValueError) as error:
            reason = "not a status" if isinstance(error, ValueError) else reason_of(error)
            return RunStatus(state="unreadable", message=f"status.json cannot be read: {reason}")

    def reserve_room(self) -> None:
        """Reserve disk space; `release_room` frees it."""
        reserve = self.path / _RESERVE
        if not reserve.exists() or reserve.stat().st_size < _RESERVED_BYTES:
            reserve.write_bytes(os.urandom(_RESERVED_BYTES))  # zeros could be stored as a hole

    def release_room(self) -> None:
        """Free the reserved space, so that the run's end can be written to a full disk."""
        (self.path / _RESERVE).unlink(missing_ok=True)


def check_run_name(name: str) -> None:
    """Check the name of a run.

    Raises:
        InvalidInput: `name` is not a valid run name.
    """
    if not re.fullmatch(RUN_NAME, name):
        raise InvalidInput(
            f"{name[:200]!r} is not a valid run name",
            field="name",
            hint="letters, digits, '_', '.' and '-', 100 at most, a letter or digit first",
        )


def read_event(line: bytes) -> Event | None:
    """Return the event of a line of events.jsonl, or None if it is damaged or incomplete."""
    if not line.endswith(b"\n"):
        return None
    try:
        return Event.model_validate_json(line)
    except ValidationError:
        return None


def append_line(path: Path, line: str) -> None:
    """Append a line. A failed write leaves nothing behind; a partial last line is removed first.

    Raises:
        OSError: the line could not be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b", buffering=0) as file:
        size = _cut_off_partial_line(file)
        content = line.encode() + b"\n"
        try:
            while content:
                content = content[file.write(content) :]
        except OSError:
            file.truncate(size)
            raise


def whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, except a last one left incomplete by a killed process.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def _cut_off_partial_line(file: FileIO) -> int:
    """Cut off a last line left incomplete by a killed process; return the size of the rest."""
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
    """Replace `path` as a whole: a reader sees either the old text or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def must_exist(path: Path) -> None:
    """Check that a file or folder is there.

    Raises:
        NotFound: it is not; tells the folder from which a relative path counts.
    """
    if not path.exists():
        hint = None if path.is_absolute() else f"paths count from {Path.cwd()}"
        raise NotFound(f"{path} does not exist", hint=hint)


def write_json(path: Path, value: object) -> None:
    write_atomically(path, json.dumps(value, indent=2, default=str) + "\n")
