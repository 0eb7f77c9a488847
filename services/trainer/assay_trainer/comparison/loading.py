"""Reads what is compared: folders of `assay evaluate`, runs, and the evaluations of a run."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from assay_shared.errors import DatasetError, InvalidInput, NotFound
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.comparison.arms import (
    ComparedArm,
    ComparedSet,
    ComparedTask,
    SeedEvaluation,
)
from assay_trainer.config import EvaluationConfig
from assay_trainer.evaluation.evaluator import TaskEvaluation, TaskResult
from assay_trainer.evaluation.metrics.outcomes import known_tokens, scored
from assay_trainer.evaluation.metrics.stored_metrics import check_metrics
from assay_trainer.evaluation.records.folder import (
    RECORD,
    EvaluationFolder,
    StoredSet,
    read_evaluation,
)
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord

#: The evaluations of a run, as `RUN:NAME` names them.
RUN_EVALUATIONS = ("before", "after")
#: Fields of a protocol that move no expected number.
_FREE = ("seed", "k")
_MOST_NAMED = 8


def read_arm(name: str | None, places: Sequence[str]) -> ComparedArm:
    """Return the arm of the evaluations at `places`; its name is the first evaluation's, if None.

    Raises:
        NotFound: there is no evaluation at a place.
        DatasetError: a file cannot be read; names file, line and field.
        InvalidInput: two seeds of the arm are the same evaluation.
    """
    found = tuple(read_measurement(place) for place in places)
    if not found:
        raise InvalidInput("an arm needs at least one evaluation", field="--arm")
    seen: dict[str, Path] = {}
    for one in found:
        if one.files_digest in seen:
            raise InvalidInput(
                f"{one.path} and {seen[one.files_digest]} are the same evaluation",
                field="--arm",
                hint="name each evaluation of an arm once",
            )
        seen[one.files_digest] = one.path
    return ComparedArm(name or found[0].name, found)


def read_measurement(place: str) -> SeedEvaluation:
    """Return the evaluation at `place`: a folder of `assay evaluate`, a run, RUN:NAME, or a file.

    Of a run without a name, the evaluation after training is read.

    Raises:
        NotFound: there is no evaluation.
        DatasetError: a file cannot be read; names file, line and field.
    """
    path = Path(place)
    base, _, name = place.rpartition(":")
    if not path.exists() and base and name in RUN_EVALUATIONS:
        return _of_run(Path(base), name)
    if path.is_file():
        return _of_file(path, path.stem, {}, ())
    if (path / RECORD).is_file():
        return _of_evaluation(path)
    if (path / "evaluation").is_dir():
        return _of_run(path, "after")
    if not path.exists():
        raise NotFound(f"there is no {place}", hint="name an evaluation's folder, or a run")
    inner = sorted(one.parent.name for one in path.glob(f"*/{RECORD}"))
    if inner:
        shown = ", ".join(inner[:_MOST_NAMED])
        raise InvalidInput(f"{place} holds {len(inner)} evaluations", hint=f"name one: {shown}")
    raise NotFound(
        f"{place} is neither an evaluation nor a run",
        hint=f"it has no {RECORD} and no evaluation/after.json",
    )


def has_two_evaluations(place: str) -> bool:
    """Return True if `place` is a run that was evaluated before and after training."""
    folder = Path(place) / "evaluation"
    return all((folder / f"{name}.json").is_file() for name in RUN_EVALUATIONS)


def _of_evaluation(path: Path) -> SeedEvaluation:
    stored = read_evaluation(path)
    check_metrics(stored)
    record, folder = stored.record, EvaluationFolder(path)
    protocol = record.protocol.model_dump(mode="json")
    if record.protocol.kind is not ProtocolKind.BUDGET:
        protocol.pop("budget_tokens", None)
    settings = {f"protocol.{name}": _shown(value) for name, value in protocol.items()}
    free = {f"protocol.{name}": settings.pop(f"protocol.{name}") for name in _FREE}
    # A server's model is the policy, and no setting.
    engine = {name: value for name, value in record.engine.items() if name != "model"}
    settings |= {f"engine.{name}": value for name, value in engine.items()}
    files = [path / RECORD]
    for name in stored.sets:
        files += [folder.tasks(name), folder.samples(name)]
    return SeedEvaluation(
        # The record has the name of the folder in which the evaluation began: this may be a copy.
        name=path.resolve().name,
        path=path,
        files_digest=_digest(files),
        policy=record.policy.name,
        policy_digest=record.policy.digest,
        protocol_digest=record.protocol_digest,
        settings=settings,
        k=record.protocol.k,
        kind=record.protocol.kind,
        sets={
            name: _stored_set(
                one, folder.samples(name), None if stored.is_finished else record.protocol
            )
            for name, one in stored.sets.items()
        },
        is_finished=stored.is_finished,
        unchecked=tuple(
            name
            for name in stored.sets
            if stored.is_finished and not folder.metrics(name).is_file()
        ),
        free_settings=free,
    )


def _stored_set(stored: StoredSet, samples: Path, unfinished: Protocol | None) -> ComparedSet:
    """Return a set; `unfinished` is the protocol of an evaluation without all samples."""
    facts = stored.facts
    num_lines = samples.read_bytes().count(b"\n") if samples.exists() else 0
    by_task = stored.by_task
    has_tokens = known_tokens(scored(stored.samples)) is not None
    return ComparedSet(
        name=facts.name,
        tasks={
            task.id: _task(task, by_task[task.id], has_tokens, unfinished) for task in stored.tasks
        },
        digest=facts.digest,
        scorers=tuple(sorted(facts.scorers)) or None,
        num_replaced=num_lines - len(stored.samples),
        played_s=facts.played_s or None,
    )


def _task(
    task: EvaluatedTask,
    samples: Sequence[SampleRecord],
    has_tokens: bool,
    unfinished: Protocol | None,
) -> ComparedTask:
    good = scored(samples)
    num_failed = len(samples) - len(good) + _num_missing(samples, unfinished)
    return ComparedTask(task.id, task.prompt, task.tags, good, num_failed, has_tokens=has_tokens)


def _num_missing(samples: Sequence[SampleRecord], unfinished: Protocol | None) -> int:
    """Return the samples of a task still to come; of a budget at least one, if there is none."""
    if unfinished is None:
        return 0
    is_budget = unfinished.kind is ProtocolKind.BUDGET
    return max(0, (1 if is_budget else unfinished.samples_per_task) - len(samples))


def _of_run(path: Path, name: str) -> SeedEvaluation:
    folder = RunFolder.open(path)
    file = folder.evaluation(name)
    if not file.is_file():
        raise NotFound(f"{path} has no evaluation {name!r}: there is no {file}")
    settings, k = _run_settings(folder)
    return _of_file(file, f"{path.name}:{name}", settings, k)


def _run_settings(folder: RunFolder) -> tuple[dict[str, str], tuple[int, ...]]:
    """Return the settings of a run's evaluations by the names that a protocol gives them."""
    try:
        written = json.loads(folder.config.read_text())["config"]
        config = EvaluationConfig.model_validate(written["evaluation"])
    except (ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{folder.config}: its evaluation cannot be read: {error}") from None
    kept = ("samples_per_task", "max_tokens", "temperature", "stop")
    values = config.model_dump(mode="json")
    return {f"protocol.{name}": _shown(values[name]) for name in kept}, config.k


def _of_file(file: Path, name: str, settings: dict[str, str], k: tuple[int, ...]) -> SeedEvaluation:
    try:
        found = TaskEvaluation.model_validate_json(file.read_bytes(), extra="forbid")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or None
        raise DatasetError(f"{file}: {first['msg']}", field=field) from None
    tasks: dict[str, ComparedTask] = {}
    for one in found.results:
        if one.task_id in tasks:
            raise DatasetError(f"{file}: the task {one.task_id!r} stands there twice")
        tasks[one.task_id] = task_of(one)
    held_out = ComparedSet(
        "held_out", tasks, digest=_tasks_digest(tasks), num_set_aside=len(found.set_aside)
    )
    most = max((len(one.samples) for one in found.results), default=1)
    return SeedEvaluation(
        name=name,
        path=file,
        files_digest=_digest([file]),
        policy=f"version {found.policy.version}",
        policy_digest=found.policy.digest,
        protocol_digest=None,
        settings=settings or {"protocol.samples_per_task": str(most)},
        k=k or tuple(number for number in (1, 4, 16, 64) if number <= most),
        kind=None,
        sets={"held_out": held_out},
    )


def task_of(result: TaskResult) -> ComparedTask:
    """Return a task of a run's evaluation."""
    good = [
        SampleRecord.model_construct(  # its values are checked already
            task_id=result.task_id,
            index=index,
            text=one.text,
            num_tokens=None,
            truncated=False,
            outcome=one.outcome,
        )
        for index, one in enumerate(result.samples)
        if one.outcome is not None
    ]
    num_failed = len(result.samples) - len(good)
    return ComparedTask(
        result.task_id, result.prompt, result.tags, good, num_failed, has_costs=False
    )


def _tasks_digest(tasks: dict[str, ComparedTask]) -> str:
    text = json.dumps(sorted((one.id, one.prompt) for one in tasks.values()))
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(files: Sequence[Path]) -> str:
    """Return the SHA-256 of the files, each with its name."""
    found = hashlib.sha256()
    for file in files:
        found.update(f"{file.name}\0".encode())
        if file.exists():
            with file.open("rb") as opened:
                found.update(hashlib.file_digest(opened, "sha256").digest())
    return found.hexdigest()


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
