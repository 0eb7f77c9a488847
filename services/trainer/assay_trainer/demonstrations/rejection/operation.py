"""Rejection sampling as the command asks for it: read evaluations, select, write the folder."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from pydantic import JsonValue

from assay_shared.errors import Conflict, DatasetError, InvalidInput, RoleError
from assay_shared.statistics.interval import wilson_interval
from assay_shared.types import Message, PromptFormat, Role, Task
from assay_trainer.data.governance.manifest import ImportManifest, digest_of
from assay_trainer.demonstrations.folder import MadeFolder, MadeRow, write_demonstrations
from assay_trainer.demonstrations.rejection.selecting import Selection, TaskSamples, select
from assay_trainer.evaluation.records.folder import (
    EvaluationFolder,
    StoredEvaluation,
    read_evaluation,
)
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import EvaluatedTask

_CONFIDENCE = 0.95
#: A rubric for answers whose evaluation does not tell one: words, then a judge, against the answer.
_RUBRIC = "qa.verified"
_QUARTERS = 4
_SOLVED = ("none", "up_to_25", "up_to_50", "up_to_75", "below_100", "all")


@dataclass(frozen=True)
class RejectionOrder:
    """The options of the command."""

    evaluations: tuple[Path, ...]
    output: Path
    per_task: int = 1
    min_score: float | None = None
    validation_share: float = 0.0
    seed: int = 0
    data_folder: Path | None = None


@dataclass(frozen=True)
class RejectionResult:
    """The manifest of the folder, and its numbers."""

    manifest: ImportManifest
    numbers: Mapping[str, JsonValue]


def make_rejection(order: RejectionOrder) -> RejectionResult:
    """Write the accepted answers of evaluations as demonstrations, and return the numbers.

    Raises:
        NotFound: a folder is not an evaluation.
        Conflict: the output exists, an evaluation is not finished, or two contradict each other.
        RoleError: no task of the evaluations is for training.
        DatasetError: no answer is left, or a file cannot be read.
    """
    if order.output.exists() and (not order.output.is_dir() or any(order.output.iterdir())):
        raise Conflict(f"{order.output} exists and is not empty", field="--output")
    names = Counter(path.resolve() for path in order.evaluations)
    if twice := [path for path, number in names.items() if number > 1]:
        raise InvalidInput(f"{twice[0]} is given twice", field="EVALUATION")
    evaluations = [read_evaluation(one) for one in order.evaluations]
    left_out: Counter[str] = Counter()
    tasks = _tasks(evaluations, left_out)
    picked = {key: select(one, order.per_task, order.min_score) for key, one in tasks.items()}
    for one in picked.values():
        left_out += one.left_out
    rows = [row for key, one in picked.items() for row in _rows(key, tasks[key].task, one)]
    if not rows:
        told = ", ".join(f"{number} {reason}" for reason, number in left_out.items())
        raise DatasetError(
            f"no answer is left: {told}", hint="more samples, or a lower --min-score"
        )
    folder = MadeFolder(
        output=order.output,
        format="rejection",
        source=", ".join(dict.fromkeys(one.record.policy.name for one in evaluations)),
        made=_facts(order, evaluations, left_out),
        validation_share=order.validation_share,
        seed=order.seed,
        data_folder=order.data_folder,
    )
    numbers: dict[str, JsonValue] = {}

    def count(manifest: ImportManifest, kept: Sequence[str]) -> Mapping[str, JsonValue]:
        numbers.update(_numbers(picked, left_out, {one.rpartition("/")[0] for one in kept}))
        return numbers

    return RejectionResult(write_demonstrations(rows, folder, count), numbers)


_Key = tuple[str, str]


def _tasks(
    evaluations: Sequence[StoredEvaluation], left_out: Counter[str]
) -> dict[_Key, TaskSamples]:
    """Return the tasks for training by set and id, with the samples of all evaluations."""
    found: dict[_Key, TaskSamples] = {}
    num_others = 0
    for one in evaluations:
        _check(one)
        for name, stored in one.sets.items():
            by_task = stored.by_task
            for task in stored.tasks:
                if task.role is not Role.TRAIN:
                    num_others += 1
                    continue
                asked = _as_asked(task, one.record.protocol)
                known = found.setdefault((name, task.id), TaskSamples(asked))
                if known.task != asked:
                    raise Conflict(f"two evaluations have another task {task.id} of {name}")
                known.samples += by_task[task.id]
    if not found:
        raise RoleError(
            f"none of the {num_others} tasks is for training: answers to them cannot be learnt",
            hint="`assay evaluate --allow-train` samples answers to rows for training",
        )
    if num_others:
        left_out["task_not_for_training"] += num_others
    return found


def _check(one: StoredEvaluation) -> None:
    kind = one.record.protocol.kind
    if kind is ProtocolKind.LIKELIHOOD:
        raise InvalidInput(f"{one.path} is by {kind}, which samples no answers", field="EVALUATION")
    if not one.is_finished:
        raise Conflict(
            f"{one.path} is not finished", hint="the same `assay evaluate` again plays what is left"
        )


def _as_asked(task: EvaluatedTask, protocol: Protocol) -> EvaluatedTask:
    """Return a task as the policy got it: in the protocol's format, behind its system message."""
    update: dict[str, object] = {}
    if protocol.prompt_format is not None:
        update["prompt_format"] = protocol.prompt_format
    if protocol.system is not None:
        others = [one for one in (task.history or ()) if one.role != "system"]
        update["history"] = (Message(role="system", content=protocol.system), *others)
    return task.model_copy(update=update)


def _rows(key: _Key, task: EvaluatedTask, found: Selection) -> Iterator[MadeRow]:
    name, _ = key
    solved = f"{found.num_accepted}/{found.num_scored}"
    for number, sample in enumerate(found.chosen):
        is_raw = task.prompt_format is PromptFormat.RAW
        made = Task(
            id=f"{name}/{task.id}/{number}",
            dataset=task.dataset or name,
            role=Role.TRAIN,
            prompt=task.prompt,
            prompt_format=task.prompt_format,
            history=() if is_raw else task.history or (),
            rubric=task.rubric or _RUBRIC,
            gold=sample.text,
            reference=task.reference,
            tags={**task.tags, "solved": _bin(found)},
        )
        record: dict[str, JsonValue] = {
            "task": task.id,
            "set": name,
            "sample": sample.index,
            "score": sample.reward,
            "solved": solved,
        }
        yield MadeRow(made, record)


def _bin(found: Selection) -> str:
    """Return the class of a task's solved share, of its scored samples alone."""
    if found.num_accepted == 0:
        return _SOLVED[0]
    if found.num_accepted == found.num_scored:
        return _SOLVED[-1]
    return _SOLVED[ceil(_QUARTERS * found.num_accepted / found.num_scored)]


def _numbers(
    picked: Mapping[_Key, Selection], left_out: Mapping[str, int], kept: Collection[str]
) -> dict[str, JsonValue]:
    """Return the numbers of the selection; `kept` are the tasks with a row, as SET/ID."""
    scored = [one for one in picked.values() if one.num_scored]
    answered = sum(f"{name}/{task}" in kept for name, task in picked)
    classes = Counter(map(_bin, scored))
    chosen = [one for selection in scored for one in selection.chosen]
    found: dict[str, JsonValue] = {
        "num_scored_tasks": len(scored),
        "num_tasks": len(picked),
        "num_tasks_with_rows": answered,
        "num_samples": sum(one.num_scored for one in scored),
        "num_accepted": sum(one.num_accepted for one in scored),
        "solved_tasks": {name: classes[name] for name in _SOLVED},
        "left_out": dict(sorted(left_out.items())),
        "mean_characters": sum(len(one.text) for one in chosen) / max(1, len(chosen)),
    }
    if scored:
        share = wilson_interval(answered, len(scored), _CONFIDENCE)
        bounds: dict[str, JsonValue] = {
            "value": share.value,
            "low": share.low,
            "high": share.high,
            "num_tasks": len(scored),
        }
        found["tasks_with_rows"] = bounds
    return found


def _facts(
    order: RejectionOrder, evaluations: Sequence[StoredEvaluation], left_out: Mapping[str, int]
) -> dict[str, JsonValue]:
    """Return what the manifest tells of the evaluations and of the selection."""
    read: list[JsonValue] = []
    for one in evaluations:
        folder = EvaluationFolder(one.path)
        samples: dict[str, JsonValue] = {
            name: digest_of(folder.samples(name)) for name in one.sets if one.sets[name].samples
        }
        read.append(
            {
                "name": one.record.name,
                "policy": one.record.policy.model_dump(mode="json"),
                "protocol": one.record.protocol_digest,
                "samples": samples,
            }
        )
    return {
        "command": "rejection",
        "evaluations": read,
        "per_task": order.per_task,
        "min_score": order.min_score,
        "left_out": dict(sorted(left_out.items())),
    }
