"""The episodes of an evaluation, checked: each task and sample once, each metric possible."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from assay_reward.or_debug.episode.metrics import CLAIM, METRIC_KINDS
from assay_reward.or_debug.evaluate.evaluation import EpisodeRecord
from assay_reward.or_debug.evaluate.evaluation_file import (
    EPISODES,
    EVALUATION,
    CellTask,
    EvaluationFile,
    read_evaluation_file,
)
from assay_reward.or_debug.evaluate.summary import OVERALL, values_by_task
from assay_shared.errors import DatasetError
from assay_shared.runs.json_lines import read_numbered_rows

#: Rounding of a mean that was written, on another machine perhaps.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class CheckedEvaluation:
    """An evaluation and its episodes by policy; the evaluated policy is the first."""

    folder: Path
    file: EvaluationFile
    records: Mapping[str, Sequence[EpisodeRecord]]

    @property
    def own(self) -> Sequence[EpisodeRecord]:
        """The episodes of the evaluated policy."""
        return self.records[self.file.evaluation.policy]

    @property
    def of_baselines(self) -> list[EpisodeRecord]:
        return [one for name in self.file.policies[1:] for one in self.records[name]]


def read_checked_evaluation(folder: Path) -> CheckedEvaluation:
    """Return the evaluation in a folder.

    Raises:
        NotFound: the folder is not an evaluation.
        DatasetError: an episode is missing, is there twice or belongs to no task, a metric has an
            impossible value, or the two files contradict each other; names file, task and field.
    """
    file, path = read_evaluation_file(folder), folder / EPISODES
    tasks = {task.id: task for task in file.tasks}
    records: dict[str, list[EpisodeRecord]] = {name: [] for name in file.policies}
    for number, record in read_numbered_rows(path, EpisodeRecord.model_validate, _key_of):
        where = f"{path}:{number}: task {record.task_id}"
        _check_place(record, file, tasks.get(record.task_id), where)
        _check_metrics(record, where)
        records[record.policy].append(record)
    for name, played in records.items():
        _check_complete(file, name, played, path)
    _check_summary(file, records, path)
    return CheckedEvaluation(folder, file, records)


def check_same_tasks(own: CheckedEvaluation, start: CheckedEvaluation) -> None:
    """Check that an evaluation is of the same tasks as the start's.

    Raises:
        DatasetError: a task is on one side alone, or differs; names file, task and field.
    """
    path = own.folder / EVALUATION
    mine, theirs = ({task.id: task for task in one.file.tasks} for one in (own, start))
    for name in (*mine, *theirs):
        if name not in mine or name not in theirs:
            there, lacks = (own, start) if name in mine else (start, own)
            raise DatasetError(
                f"{path}: task {name} is in {there.folder} and not in {lacks.folder}", field="tasks"
            )
        for field in CellTask.model_fields:
            ours, other = getattr(mine[name], field), getattr(theirs[name], field)
            if ours != other:
                raise DatasetError(
                    f"{path}: task {name} has {ours!r}, and {other!r} in {start.folder}",
                    field=f"tasks.{field}",
                )


def _key_of(record: EpisodeRecord) -> str:
    return f"{record.policy}/{record.task_id}/{record.sample}"


def _check_place(
    record: EpisodeRecord, file: EvaluationFile, task: CellTask | None, where: str
) -> None:
    if record.policy not in file.policies:
        raise DatasetError(f"{where}: {EVALUATION} has no policy {record.policy!r}", field="policy")
    if task is None:
        raise DatasetError(f"{where}: {EVALUATION} has no such task", field="task_id")
    for field in ("cell", "difficulty"):
        found, right = getattr(record, field), getattr(task, field)
        if found != right:
            raise DatasetError(
                f"{where}: it is {found!r} here and {right!r} in {EVALUATION}", field=field
            )
    if not 0 <= record.sample < file.asked.samples:
        raise DatasetError(
            f"{where}: {record.sample} is not below the {file.asked.samples} samples of a task",
            field="sample",
        )


def _check_metrics(record: EpisodeRecord, where: str) -> None:
    if record.failure is not None:
        if record.metrics:
            raise DatasetError(f"{where}: a failed episode has no metrics", field="metrics")
        return
    lacking = METRIC_KINDS.keys() - {CLAIM} - record.metrics.keys()
    if lacking:
        raise DatasetError(f"{where}: it has no {min(lacking)}", field=f"metrics.{min(lacking)}")
    for name, value in record.metrics.items():
        kind = METRIC_KINDS.get(name)
        if kind is None:
            raise DatasetError(f"{where}: there is no such metric", field=f"metrics.{name}")
        if not kind.allows(value):
            raise DatasetError(f"{where}: must be {kind}, not {value:g}", field=f"metrics.{name}")


def _check_complete(
    file: EvaluationFile, name: str, played: Sequence[EpisodeRecord], path: Path
) -> None:
    there = {(one.task_id, one.sample) for one in played}
    wanted = [(task.id, sample) for task in file.tasks for sample in range(file.asked.samples)]
    lacking = [one for one in wanted if one not in there]
    if lacking:
        task, sample = lacking[0]
        raise DatasetError(
            f"{path}: {name} has no episode of task {task}, sample {sample}: {len(lacking)} of the "
            f"{len(wanted)} episodes in {EVALUATION} are missing",
            field="task_id",
        )


def _check_summary(
    file: EvaluationFile, records: Mapping[str, Sequence[EpisodeRecord]], path: Path
) -> None:
    """Refuse episodes whose means are not those that were written next to them."""
    for name, played in records.items():
        for place in dict.fromkeys((*(one.cell for one in played), OVERALL)):
            found = _numbers([one for one in played if place in (one.cell, OVERALL)])
            written = _written(file, name, place)
            for key, ours in found.items():
                theirs = written.get(key, math.nan)
                if not math.isclose(ours, theirs, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
                    raise DatasetError(
                        f"{path}: {key} of {name} in cell {place} is {ours:g}, and {theirs:g} in "
                        f"{EVALUATION}",
                        field=key,
                    )


def _written(file: EvaluationFile, policy: str, place: str) -> dict[str, float]:
    """Return the numbers of a cell as evaluation.json has them, named as by `_numbers`."""
    cell = file.evaluation.of(policy, place)
    if cell is None:
        return {}
    means = {name: found.mean for name, found in cell.metrics.items()}
    return {"episodes": cell.num_episodes, "failed": cell.num_failed} | means


def _numbers(played: Sequence[EpisodeRecord]) -> dict[str, float]:
    """Return the numbers of episodes and of failed ones, and the mean of each metric over tasks."""
    names = dict.fromkeys(name for one in played for name in one.metrics)
    counts = {"episodes": len(played), "failed": sum(one.failure is not None for one in played)}
    return counts | {name: fmean(values_by_task(played, name).values()) for name in names}
