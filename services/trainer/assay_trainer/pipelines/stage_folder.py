"""The folder of a stage: its work and its costs."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from assay_shared.errors import DatasetError, NotFound
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.runs.regular_file import read_regular, reason_of
from assay_shared.runs.run_folder import append_line, write_atomically
from assay_shared.settings.validation import message_of
from assay_shared.types.wire import Wire
from assay_shared.weights.checkpoint import file_digest

_RECORD, _ATTEMPTS = "stage.json", "attempts.jsonl"
#: Files of an input folder; more are refused, because a typing error may name all of a disk.
_MAX_FILES = 100_000
_MOST_RECORD_BYTES = 16 * 2**20
Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]


class GateResult(Wire):
    """A gate's verdict, with the number behind it."""

    set: str
    metric: str
    bound: str
    value: float | None
    #: A count, or another number without an interval.
    is_exact: bool = False
    #: A check of every stage of its kind.
    is_built_in: bool = False
    low: float | None = None
    high: float | None = None
    verdict: Verdict
    #: Tasks to decide, if value and spread stay as they are; null if no number would.
    tasks_to_decide: int | None = None
    follows: Literal["stop", "continue"]
    action: str = ""


class CommandAttempt(Wire):
    """A start of a stage's command; without an end if it was killed."""

    started: float
    ended: float | None = None
    exit_code: int | None = None


class StageCosts(Wire):
    """The costs of a stage, all attempts together."""

    seconds: float = 0.0
    gpu_hours: float = 0.0
    tokens: float = 0.0
    judge_tokens: float = 0.0
    money: float = 0.0


class StageRecord(Wire):
    """stage.json of a stage, once its command has ended well."""

    name: str
    kind: str
    #: SHA-256 of the stage, its files, and the same of the stages it needs.
    inputs: str
    state: Literal["done", "skipped"] = "done"
    reason: str = ""
    finished: float
    costs: StageCosts = Field(default_factory=StageCosts)
    gates: tuple[GateResult, ...] = ()


class StageFolder:
    """A stage's folder in a pipeline's: stages/NAME/INPUTS, so that other inputs begin again."""

    def __init__(self, pipeline: Path, name: str, inputs: str) -> None:
        self.name, self.inputs = name, inputs
        self.path = pipeline / "stages" / name / inputs[:12]
        self.output = self.path / "output"
        self.log = self.path / "log.txt"
        #: Locked by the stage's command, and touched while it is watched.
        self.running = self.path / ".running"

    def beside(self, place: str) -> "StageFolder":
        """Return a folder within this one, to do the stage again without touching its results."""
        found = StageFolder(self.path, self.name, self.inputs)
        found.path = self.path / place
        found.output, found.log = found.path / "output", found.path / "log.txt"
        found.running = found.path / ".running"
        return found

    def record(self) -> StageRecord | None:
        """Return the record of a stage; None before it is done.

        Raises:
            DatasetError: stage.json is not as it was written.
        """
        file = self.path / _RECORD
        return read_record(file) if file.exists() else None

    def write(self, record: StageRecord) -> None:
        write_atomically(self.path / _RECORD, record.model_dump_json(indent=2) + "\n")

    def add_attempt(self, attempt: CommandAttempt) -> None:
        """Append to the attempts: the start, and again with the end."""
        append_line(self.path / _ATTEMPTS, attempt.model_dump_json())

    def attempts(self) -> list[CommandAttempt]:
        """Return the attempts; a killed attempt counts until it was last seen."""
        file = self.path / _ATTEMPTS
        if not file.exists():
            return []
        found: dict[float, CommandAttempt] = {}
        for one in read_json_lines(file, CommandAttempt.model_validate):
            found[one.started] = one
        return [self._closed(one) for one in found.values()]

    def seconds(self) -> float:
        """Return the time of all attempts."""
        return sum((one.ended or one.started) - one.started for one in self.attempts())

    def close_killed(self) -> None:
        """Write the end of a killed attempt, before another begins."""
        for one in self.attempts():
            if one.exit_code is None:
                self.add_attempt(one)

    def _closed(self, attempt: CommandAttempt) -> CommandAttempt:
        if attempt.ended is not None:
            return attempt
        seen = self.running.stat().st_mtime if self.running.exists() else attempt.started
        return attempt.model_copy(update={"ended": max(attempt.started, seen)})


def read_record(file: Path) -> StageRecord:
    """Return the record in a stage.json.

    Raises:
        DatasetError: it is not as it was written.
    """
    try:
        return StageRecord.model_validate_json(read_regular(file, _MOST_RECORD_BYTES))
    except OSError as error:
        raise DatasetError(f"{file} cannot be read: {reason_of(error)}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))[:200] or None
        told = f"{file} cannot be read: {message_of(first):.200}"
        raise DatasetError(told, field=field) from None


def digest_of(parts: Iterable[object], files: Iterable[Path]) -> str:
    """Return the SHA-256 of values and of the content of files and folders.

    Raises:
        NotFound: a file is missing, or cannot be read.
    """
    found = hashlib.sha256(json.dumps(list(parts), sort_keys=True, default=str).encode())
    for place in files:
        for file in _files(place):
            found.update(b"\0" + str(file.relative_to(place.parent)).encode() + b"\0")
            found.update(_read_digest(file))
    return found.hexdigest()


def _read_digest(file: Path) -> bytes:
    try:
        return file_digest(file).encode()
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror or error}") from None


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    elif place.is_dir():
        inside = sorted(one for one in place.rglob("*") if one.is_file())
        if len(inside) > _MAX_FILES:
            raise NotFound(f"{place} has over {_MAX_FILES} files: name the files that are read")
        yield from inside
    else:
        raise NotFound(f"there is no {place}")
