"""The folder of a stored evaluation: writing it, resuming it, and reading it.

evaluation.json        the record: policy, protocol, sets
SET/tasks.jsonl        the tasks as far as a reader of the samples needs them
SET/samples.jsonl      an answer a line, appended as it comes
SET/metrics.json       the set's numbers
qa/SET.jsonl, SET.txt  samples for people, by outcome
report.md, report.html
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from assay_shared.errors import DatasetError, NotFound
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.runs.run_folder import append_line, must_exist, whole_lines, write_atomically
from assay_shared.types import Failure, FailureClass
from assay_trainer.evaluation.records.consistency import (
    check_complete,
    check_digest,
    check_outcome,
    check_sample,
    check_tasks,
)
from assay_trainer.evaluation.records.evaluation_record import EvaluatedSet, EvaluationRecord
from assay_trainer.evaluation.records.protocol import Protocol
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord

RECORD = "evaluation.json"
_TASKS, _SAMPLES, _METRICS = "tasks.jsonl", "samples.jsonl", "metrics.json"
_Line = TypeVar("_Line", bound=BaseModel)


@dataclass(frozen=True)
class StoredSet:
    """A set of a stored evaluation: its tasks, and its samples in the order of the tasks."""

    facts: EvaluatedSet
    tasks: Sequence[EvaluatedTask]
    samples: Sequence[SampleRecord]

    @property
    def by_task(self) -> dict[str, list[SampleRecord]]:
        """Return the samples of each task by its id; none for a task without samples."""
        found: dict[str, list[SampleRecord]] = {task.id: [] for task in self.tasks}
        for sample in self.samples:
            found[sample.task_id].append(sample)
        return found


@dataclass(frozen=True)
class StoredEvaluation:
    """A stored evaluation: its record and its sets by their names."""

    path: Path
    record: EvaluationRecord
    sets: dict[str, StoredSet]

    @property
    def is_finished(self) -> bool:
        return self.record.finished is not None


def read_evaluation(path: Path) -> StoredEvaluation:
    """Return the evaluation in the folder `path`, finished or not.

    Raises:
        NotFound: the folder is not an evaluation.
        DatasetError: a file cannot be read, or contradicts another one; names file, line and field.
    """
    folder = EvaluationFolder(path)
    record = folder.read_record()
    sets = {facts.name: folder.read_set(facts, record.protocol) for facts in record.sets}
    if record.finished is not None:
        for name, one in sets.items():
            check_complete(one.by_task, record.protocol, folder.samples(name))
    return StoredEvaluation(path, record, sets)


def readable(sample: SampleRecord) -> SampleRecord:
    """Return a sample as its line will be read, or a failure in the place of a bad one.

    Numbers of servers may be NaN, or contradict each other: the folder could not be read again.
    """
    where = f"sample {sample.index} of {sample.task_id!r}"
    try:
        found = SampleRecord.model_validate(json.loads(_json(sample)))
        check_sample(found, None, where)
        check_outcome(found, where)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except DatasetError as error:
        reason = error.message.removeprefix(f"{where}: ")
    except (ValueError, OverflowError) as error:  # a whole number of hundreds of digits
        reason = str(error)
    else:
        return found
    failure = Failure(
        failure_class=FailureClass.INTERNAL,
        service="trainer",
        message=f"the sample cannot be stored: {reason}",
        retryable=False,
    )
    return SampleRecord(
        task_id=sample.task_id,
        index=sample.index,
        text="",
        num_tokens=None,
        truncated=False,
        outcome=None,
        failure=failure,
    )


class EvaluationFolder:
    """The files of an evaluation."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """True if the folder has a record."""
        return (self.path / RECORD).is_file()

    @property
    def has_samples(self) -> bool:
        """True if a set has stored samples, with a score or without."""
        return any(one.stat().st_size for one in self.path.glob(f"*/{_SAMPLES}"))

    def tasks(self, name: str) -> Path:
        return self.path / name / _TASKS

    def samples(self, name: str) -> Path:
        return self.path / name / _SAMPLES

    def metrics(self, name: str) -> Path:
        return self.path / name / _METRICS

    def qa_log(self, name: str, ending: str) -> Path:
        return self.path / "qa" / f"{name}.{ending}"

    def write_record(self, record: EvaluationRecord) -> None:
        write_atomically(self.path / RECORD, record.model_dump_json(indent=1) + "\n")

    def read_record(self) -> EvaluationRecord:
        """Return the record.

        Raises:
            NotFound: there is no such folder, or it has none.
            DatasetError: the record cannot be read, is of another form, or has the digest of
                another protocol.
        """
        path = self.path / RECORD
        must_exist(self.path)
        try:
            text = path.read_bytes()
            record = EvaluationRecord.model_validate_json(text)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(
                f"{self.path} is not an evaluation: it has no {RECORD}",
                hint="`assay evaluate ... --output FOLDER` writes one",
            ) from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(map(str, first["loc"])) or None
            raise DatasetError(f"{path}: {first['msg']}", field=field) from None
        except OSError as error:
            raise DatasetError(f"{path} cannot be read: {error}") from None
        check_digest(record, text, path)
        return record

    def write_tasks(self, name: str, tasks: Iterable[EvaluatedTask]) -> str:
        """Write the tasks of a set and return the file's SHA-256."""
        text = _lines(tasks)
        write_atomically(self.tasks(name), text)
        return hashlib.sha256(text.encode()).hexdigest()

    def append_samples(self, name: str, samples: Sequence[SampleRecord]) -> None:
        """Append samples; a half-written last line is removed first.

        Raises:
            OSError: they could not be written; the file is then as before.
        """
        if samples:
            append_line(self.samples(name), _lines(samples).removesuffix("\n"))

    def replace_samples(self, name: str, samples: Iterable[SampleRecord]) -> None:
        write_atomically(self.samples(name), _lines(samples))

    def has_blank_end(self, name: str) -> bool:
        """Return True if the last line of a set's samples is blank: none may follow it."""
        path = self.samples(name)
        last = deque(_whole_lines(path), maxlen=1) if path.exists() else ()
        return any(not line.strip() for line in last)

    def read_set(self, facts: EvaluatedSet, protocol: Protocol | None = None) -> StoredSet:
        """Return a set's tasks, and its samples in the order of the tasks.

        A line of a sample replaces an earlier one that has a failure; a half-written last line
        does not count, and blank lines at the end do not either.
        With `protocol`, the samples are those that it asks for.

        Raises:
            DatasetError: a file cannot be read, or contradicts another one.
        """
        path = self.tasks(facts.name)
        check_tasks(path, facts)
        tasks = list(read_json_lines(path, EvaluatedTask.model_validate, lambda task: task.id))
        if len(tasks) != facts.num_tasks:
            raise DatasetError(
                f"{path} has {len(tasks)} tasks, and {RECORD} says {facts.num_tasks}",
                field=f"sets.{facts.name}.num_tasks",
            )
        places = {task.id: place for place, task in enumerate(tasks)}
        found: dict[tuple[int, int], SampleRecord] = {}
        for number, sample in enumerate(self._whole_samples(facts.name), start=1):
            where = f"{self.samples(facts.name)}:{number}"
            if sample.task_id not in places:
                raise DatasetError(
                    f"{where}: no task is called {sample.task_id!r}", field="task_id"
                )
            check_sample(sample, protocol, where)
            check_outcome(sample, where)
            key = (places[sample.task_id], sample.index)
            if key in found and found[key].failure is None:
                raise DatasetError(
                    f"{where}: sample {sample.index} of {sample.task_id!r} has a score in a line "
                    f"before",
                    field="index",
                    hint="a sample has one scored line; only a failure is replaced by a later line",
                )
            found[key] = sample
        return StoredSet(facts, tasks, [found[key] for key in sorted(found)])

    def _whole_samples(self, name: str) -> Iterator[SampleRecord]:
        path = self.samples(name)
        if not path.exists():
            return
        blank: int | None = None
        for number, line in enumerate(_whole_lines(path), start=1):
            if not line.strip():
                blank = blank or number
                continue
            if blank is not None:
                raise DatasetError(
                    f"{path}:{blank}: the line is blank, and samples follow it",
                    hint="remove the line; only at the end of the file may lines be blank",
                )
            try:
                # Pydantic's own reader refuses the escaped lone surrogates of a policy's texts.
                yield SampleRecord.model_validate(json.loads(line))
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                field = ".".join(map(str, first["loc"])) or None
                raise DatasetError(f"{path}:{number}: {first['msg']}", field=field) from None
            except ValueError as error:
                raise DatasetError(f"{path}:{number}: not JSON: {error}") from None


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the whole lines of a file that has to be readable."""
    try:
        yield from whole_lines(path)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None


def _lines(rows: Iterable[_Line]) -> str:
    return "".join(f"{_json(row)}\n" for row in rows)


def _json(row: BaseModel) -> str:
    """Return a row's JSON; a policy's lone surrogates are escaped."""
    text = json.dumps(row.model_dump(mode="json"), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(row.model_dump(mode="json"))
    return text
