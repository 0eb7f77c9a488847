"""Evaluations of runs, paired: results with intervals, strata, and the tasks that turned."""

import multiprocessing
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from assay_shared.errors import AssayError, DatasetError, NotFound, NotReady
from assay_shared.runs.regular_file import open_regular, reason_of
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.browser.facts.task_places import TaskPlaces, places_of
from assay_trainer.comparison.arms import ComparedArm, ComparedTask
from assay_trainer.comparison.comparing import ComparisonData, ComparisonPlan, compare_arms
from assay_trainer.comparison.loading import RUN_EVALUATIONS, read_measurement

_MOST_BYTES = 256 * 2**20
#: Larger evaluations are compared in a separate process: its memory ends with it, and the
#: pages of this one do not wait for it.
_OWN_PROCESS_BYTES = 8 * 2**20
_MOST_S = 600.0
#: A tag with more values, such as a number of each task, makes no strata.
_MOST_VALUES = 20
_MOST_TAGS = 6
_MOST_KEPT = 8


@dataclass(frozen=True)
class PairedEvaluations:
    """The comparison of a baseline with other sides; without one, the reason.

    The texts stay in the files: `tasks` has the places of a run's tasks, before and after.
    """

    data: ComparisonData | None
    why_none: str = ""
    tasks: tuple[TaskPlaces, ...] = ()


@dataclass(frozen=True)
class TurnedTask:
    """A task of a set as two evaluations answered it."""

    set: str
    before: ComparedTask
    after: ComparedTask


_Place = tuple[RunFolder, str]
_Key = tuple[tuple[str, int, int, int], ...]


class EvaluationReader:
    """Compares stored evaluations; keeps the last comparisons of unchanged files.

    Threads may share it: one waits only for a comparison that it asks for itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._comparing = threading.Lock()
        self._kept: OrderedDict[_Key, Future[PairedEvaluations]] = OrderedDict()

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
            return PairedEvaluations(None, str(error))
        with self._lock:
            known = self._kept.get(key)
            found = self._kept.setdefault(key, Future())
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        if known is None:
            self._compare(key, found, places, has_strata)
        return found.result(_MOST_S)

    def _compare(
        self,
        key: _Key,
        found: Future[PairedEvaluations],
        places: Sequence[_Place],
        has_strata: bool,
    ) -> None:
        """Compare, and give the result to all that wait for it; a failure is not kept."""
        try:
            with self._comparing:  # one at a time: a large one takes memory and a core
                is_large = sum(size for _, _, size, _ in key) > _OWN_PROCESS_BYTES
                found.set_result((_apart if is_large else _compared)(places, has_strata))
        finally:
            if not found.done():
                found.set_exception(NotReady("the comparison failed", hint="ask again"))
                with self._lock:
                    if self._kept.get(key) is found:
                        del self._kept[key]


def _apart(places: Sequence[_Place], has_strata: bool) -> PairedEvaluations:
    """Compare in a separate process.

    Raises:
        NotReady: the process ended early, or takes too long.
    """
    method = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, mp_context=method)
    try:
        return pool.submit(_compared, places, has_strata).result(_MOST_S)
    except (BrokenProcessPool, TimeoutError) as error:
        for process in list(pool._processes.values()):
            process.kill()
        told = str(error) or f"it took over {_MOST_S:.0f} s"
        raise NotReady(f"the evaluations could not be compared: {told}") from None
    finally:
        pool.shutdown(cancel_futures=True)


def turned_task(found: PairedEvaluations, set_name: str, task_id: str) -> TurnedTask:
    """Return a task as the evaluations before and after training answered it.

    Raises:
        NotFound: one of them lacks it, or was replaced.
    """
    has_set = found.data is not None and set_name in {row.set for row in found.data.rows}
    if not has_set or not all(task_id in one.places for one in found.tasks):
        raise NotFound(f"no task {task_id!r:.200} of {set_name!r:.200} is in both evaluations")
    before, after = (one.read(task_id) for one in found.tasks)
    return TurnedTask(set_name, before, after)


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
        return PairedEvaluations(None, str(error))
    try:
        data = compare_arms(arms[0], arms[1:], plan)
    except AssayError as error:
        return PairedEvaluations(None, str(error))
    tasks = [places_of(run.evaluation(name)) for run, name in places] if has_strata else []
    return PairedEvaluations(data, tasks=tuple(tasks))


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
