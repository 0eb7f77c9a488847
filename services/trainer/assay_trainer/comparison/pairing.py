"""Per-task values of two arms over the same tasks; seeds are averaged within a task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from assay_shared.statistics.ratios import RatioColumns
from assay_shared.statistics.resampling import Floats, resampled_quantiles
from assay_trainer.comparison.arms import ComparedSet, ComparedTask
from assay_trainer.comparison.metrics import Metric, TaskValue
from assay_trainer.comparison.results import SeedSpread, UncomparedTasks


@dataclass(frozen=True)
class PairedSide:
    """One arm's values over the compared tasks: a row for each seed, a column for each task."""

    values: Floats
    #: Denominators of a ratio; ones for a mean.
    per: Floats
    #: Samples behind a task's value, all seeds together, at most.
    most_samples: int

    @property
    def columns(self) -> RatioColumns:
        """The values of each task, averaged over seeds."""
        return RatioColumns(self.values.mean(axis=0), self.per.mean(axis=0))

    def estimate(self, metric: Metric, seed: int | None = None) -> float:
        """Return the metric over all seeds together, or of one seed; the mean of quantiles."""
        chosen = slice(None) if seed is None else slice(seed, seed + 1)
        values, per = self.values[chosen], self.per[chosen]
        if metric.quantile is not None:
            found = np.quantile(values, metric.quantile, axis=1, method="inverted_cdf")
            return float(found.mean())
        return RatioColumns(values.mean(axis=0), per.mean(axis=0)).value

    def quantile_resamples(self, quantile: float, seed: int) -> Floats:
        """Return the mean of the seeds' quantiles in each resample of the tasks."""
        means: Floats = resampled_quantiles(self.values.T, quantile, seed).mean(axis=1)
        return means

    def spread(self, metric: Metric) -> SeedSpread | None:
        """Return the metric of each seed with mean and deviation; None if a seed has none."""
        found = [self.estimate(metric, seed) for seed in range(len(self.values))]
        if not np.isfinite(found).all():
            return None
        std = stdev(found) if len(found) > 1 else None
        return SeedSpread(values=found, mean=fmean(found), std=std)


@dataclass(frozen=True)
class Paired:
    """Two sides over the same tasks, and the tasks left out."""

    ids: Sequence[str]
    before: PairedSide
    after: PairedSide
    left_out: UncomparedTasks

    def equals(self, other: "Paired") -> bool:
        """Return True if both sides have the same values of the same tasks as in `other`."""
        return list(self.ids) == list(other.ids) and all(
            np.array_equal(mine.values, theirs.values)
            for mine, theirs in ((self.before, other.before), (self.after, other.after))
        )


@dataclass(frozen=True)
class CountedAs:
    """The number of each failed sample of a side: of the metric, and of its denominator."""

    value: float
    per: float


def pair(
    metric: Metric,
    baseline: Sequence[ComparedSet],
    arm: Sequence[ComparedSet],
    chosen: set[str],
    counted: tuple[CountedAs, CountedAs] | None = None,
) -> Paired:
    """Return the values of both arms over the tasks that every seed of both can tell.

    Only the tasks in `chosen` are considered: a stratum, or all. With `counted`, failed samples of
    the baseline and of the arm count as these numbers; without, they are left out.
    """
    first, second = _seeds(baseline), _seeds(arm)
    in_first, in_second = _common(first) & chosen, _common(second) & chosen
    in_both = in_first & in_second
    shared = [id_ for id_ in baseline[0].tasks if id_ in in_both]
    sides = (
        [(first, None), (second, None)]
        if counted is None
        else list(zip((first, second), counted, strict=True))
    )
    scored = [
        id_
        for id_ in shared
        if all(
            seed[id_].samples or (failed and seed[id_].num_failed)
            for seeds, failed in sides
            for seed in seeds
        )
    ]
    ids = [
        id_
        for id_ in scored
        if all(
            _value(metric, seed[id_], failed) is not None
            for seeds, failed in sides
            for seed in seeds
        )
    ]
    left_out = UncomparedTasks(
        only_in_baseline=len(in_first - in_second),
        only_in_arm=len(in_second - in_first),
        without_score=len(shared) - len(scored),
        too_few_samples=len(scored) - len(ids),
    )
    before, after = (_side(metric, seeds, ids, failed) for seeds, failed in sides)
    return Paired(ids, before, after, left_out)


@dataclass(frozen=True)
class SideCount:
    """The failed samples of a side, and all of its samples."""

    num_failed: int
    num_samples: int


def failed_counts(
    baseline: Sequence[ComparedSet], arm: Sequence[ComparedSet], chosen: set[str]
) -> tuple[SideCount, SideCount]:
    """Return the failed samples of both sides over their shared tasks in `chosen`."""
    ids = _common(_seeds(baseline)) & _common(_seeds(arm)) & chosen
    before, after = (
        [seed[id_] for seed in _seeds(sets) for id_ in ids] for sets in (baseline, arm)
    )
    return _count(before), _count(after)


def _count(tasks: Sequence[ComparedTask]) -> SideCount:
    num_failed = sum(task.num_failed for task in tasks)
    return SideCount(num_failed, num_failed + sum(len(task.samples) for task in tasks))


def extremes(
    metric: Metric, sets: Sequence[ComparedSet], chosen: set[str]
) -> tuple[CountedAs, CountedAs]:
    """Return the numbers of a failed sample for the lowest and for the highest metric.

    A share is 0 or 1. A cost is the lowest or the highest of any scored sample; for each
    solved task, it is lowest of a solved sample.
    """
    if metric.number is None:
        return CountedAs(0.0, 1.0), CountedAs(1.0, 0.0)
    tasks = [task for one in sets for id_, task in one.tasks.items() if id_ in chosen]
    numbers = [metric.number(sample) for task in tasks for sample in task.samples]
    return CountedAs(min(numbers, default=0.0), 1.0), CountedAs(max(numbers, default=0.0), 0.0)


def alone(metric: Metric, sets: Sequence[ComparedSet], chosen: set[str]) -> tuple[PairedSide, int]:
    """Return the values of one arm over the tasks that every seed can tell, and their number."""
    seeds = _seeds(sets)
    within = _common(seeds) & chosen
    ids = [
        id_
        for id_ in sets[0].tasks
        if id_ in within
        and all(seed[id_].samples and _value(metric, seed[id_]) is not None for seed in seeds)
    ]
    return _side(metric, seeds, ids), len(ids)


def _seeds(sets: Sequence[ComparedSet]) -> list[Mapping[str, ComparedTask]]:
    return [one.tasks for one in sets]


def _common(seeds: Sequence[Mapping[str, ComparedTask]]) -> set[str]:
    return set.intersection(*(set(seed) for seed in seeds))


def _value(metric: Metric, task: ComparedTask, failed: CountedAs | None = None) -> float | None:
    value = metric.value(task, None if failed is None else failed.value)
    if metric.per is not None and metric.per(task, None if failed is None else failed.per) is None:
        return None
    return value


def _side(
    metric: Metric,
    seeds: Sequence[Mapping[str, ComparedTask]],
    ids: Sequence[str],
    failed: CountedAs | None = None,
) -> PairedSide:
    values = _matrix(metric.value, seeds, ids, None if failed is None else failed.value)
    per = np.ones_like(values)
    if metric.per is not None:
        per = _matrix(metric.per, seeds, ids, None if failed is None else failed.per)
    most = max((sum(_num(seed[id_], failed) for seed in seeds) for id_ in ids), default=1)
    return PairedSide(values=values, per=per, most_samples=most)


def _num(task: ComparedTask, failed: CountedAs | None) -> int:
    return len(task.samples) + (task.num_failed if failed is not None else 0)


def _matrix(
    value: TaskValue,
    seeds: Sequence[Mapping[str, ComparedTask]],
    ids: Sequence[str],
    failed: float | None,
) -> Floats:
    rows = [[value(seed[id_], failed) for id_ in ids] for seed in seeds]
    return np.array(rows, dtype=np.float64).reshape(len(seeds), len(ids))
