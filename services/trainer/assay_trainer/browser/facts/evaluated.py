"""Evaluations of runs, paired: results with intervals, strata, and the tasks that turned."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from assay_shared.errors import AssayError, DatasetError, NotFound
from assay_shared.runs.regular_file import open_regular, reason_of
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.comparison.arms import ComparedArm, ComparedTask
from assay_trainer.comparison.comparing import ComparisonData, ComparisonPlan, compare_arms
from assay_trainer.comparison.loading import RUN_EVALUATIONS, read_measurement

_MOST_BYTES = 256 * 2**20
#: A tag with more values, such as a number of each task, makes no strata.
_MOST_VALUES = 20
_MOST_TAGS = 6
_MOST_KEPT = 8


@dataclass(frozen=True)
class PairedEvaluations:
    """A baseline, the other sides, and their comparison; without one, the reason."""

    arms: tuple[ComparedArm, ...]
    data: ComparisonData | None
    why_none: str = ""


@dataclass(frozen=True)
class TurnedTask:
    """A task of a set as two evaluations answered it."""

    set: str
    before: ComparedTask
    after: ComparedTask


_Place = tuple[RunFolder, str]
_Key = tuple[tuple[str, int, int, int], ...]


class EvaluationReader:
    """Compares stored evaluations; keeps the last comparisons of unchanged files."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, PairedEvaluations] = OrderedDict()

    def of_run(self, run: RunFolder) -> PairedEvaluations:
        """Return the evaluation before training against the one after it, with strata."""
        return self._paired([(run, name) for name in RUN_EVALUATIONS], has_strata=True)

    def of_runs(self, runs: Sequence[RunFolder]) -> PairedEvaluations:
        """Return the evaluations after training, the first run's as the baseline."""
        return self._paired([(run, "after") for run in runs], has_strata=False)

    def _paired(self, places: Sequence[_Place], has_strata: bool) -> PairedEvaluations:
        try:
            key = tuple(_state(*place) for place in places)
        except NotFound as error:
            return PairedEvaluations((), None, str(error))
        with self._lock:
            if key not in self._kept:
                self._kept[key] = _compared(places, has_strata)
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]


def turned_task(found: PairedEvaluations, set_name: str, task_id: str) -> TurnedTask:
    """Return a task as the first two evaluations answered it.

    Raises:
        NotFound: one of them lacks it.
    """
    sides = [one.sets_of(set_name) for one in found.arms[:2]]
    if len(sides) == 2 and all(side and task_id in side[0].tasks for side in sides):
        return TurnedTask(set_name, *(side[0].tasks[task_id] for side in sides))
    raise NotFound(f"no task {task_id!r:.200} of {set_name!r:.200} is in both evaluations")


def _state(run: RunFolder, name: str) -> tuple[str, int, int, int]:
    """Return what changes with an evaluation's file.

    Raises:
        NotFound: the file is missing, not a regular one, or too large; says so.
    """
    try:
        status = run.evaluation(name).stat()
        with open_regular(run.evaluation(name)):
            pass
    except OSError as error:
        told = f"{run.path.name} has no evaluation {name!r} training yet"
        if not isinstance(error, FileNotFoundError):
            told = f"evaluation/{name}.json of {run.path.name}: {reason_of(error)}"
        raise NotFound(told) from None
    if status.st_size > _MOST_BYTES:
        raise NotFound(
            f"evaluation/{name}.json of {run.path.name} has over {_MOST_BYTES >> 20} MiB"
        )
    return str(run.evaluation(name)), status.st_ino, status.st_size, status.st_mtime_ns


def _compared(places: Sequence[_Place], has_strata: bool) -> PairedEvaluations:
    try:
        arms = tuple(_arm(run, name, has_strata) for run, name in places)
        ks = set.intersection(*(set(one.measurements[0].k) for one in arms)) | {1}
        plan = ComparisonPlan(
            metrics=[f"pass@{k}" for k in sorted(ks)],
            tags=_tags(arms) if has_strata else (),
            allow_different=True,
        )
    except (OSError, DatasetError, NotFound) as error:
        return PairedEvaluations((), None, str(error))
    try:
        return PairedEvaluations(arms, compare_arms(arms[0], arms[1:], plan))
    except AssayError as error:
        return PairedEvaluations(arms, None, str(error))


def _arm(run: RunFolder, name: str, is_alone: bool) -> ComparedArm:
    """Return an evaluation; of a run alone it is called before or after, else by its run."""
    return ComparedArm(
        name if is_alone else run.path.name, (read_measurement(f"{run.path}:{name}"),)
    )


def _tags(arms: Sequence[ComparedArm]) -> list[str]:
    """Return the tags that split the tasks into some strata."""
    values: dict[str, set[str]] = {}
    for one in arms[0].measurements[0].sets.values():
        for task in one.tasks.values():
            for name, value in task.tags.items():
                values.setdefault(name, set()).add(value)
    return [name for name, some in sorted(values.items()) if 1 < len(some) <= _MOST_VALUES][
        :_MOST_TAGS
    ]
