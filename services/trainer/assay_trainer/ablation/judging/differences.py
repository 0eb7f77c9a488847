"""The difference of two arms: by scored samples, and with failed samples counted against it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay_trainer.ablation.judging.crossed import CrossedMean, crossed_mean, span_of
from assay_trainer.ablation.judging.measurements import Key, MeasuredArm, MeasuredRun
from assay_trainer.ablation.metrics import is_bounded, is_share
from assay_trainer.evaluation.metrics.failed_samples import FailedCount


@dataclass(frozen=True)
class AgainstIt:
    """A difference or a value with failed samples counted against it."""

    #: None if there are too few values.
    found: CrossedMean | None
    #: The number of each failed sample: of the arm, and of the other one.
    counted: tuple[float, float]
    counts: tuple[FailedCount, ...]


def is_from_0_to_1(arms: Iterable[MeasuredArm], key: Key) -> bool:
    """Return True if a metric is a share, or all measured values are from 0 to 1."""
    runs = (run for arm in arms for run in arm.runs.values())
    return is_share(key[1]) or all(
        0 <= value <= 1 for run in runs for value in run.values.get(key, {}).values()
    )


def difference(arm: MeasuredArm, other: MeasuredArm, key: Key) -> CrossedMean | None:
    """Return the mean difference over shared seeds and tasks; None without two values."""
    seeds = [seed for seed in arm.runs if seed in other.runs]
    known = set(other.tasks(key))
    tasks = [id_ for id_ in arm.tasks(key) if id_ in known]
    mine, theirs = arm.table(key, tasks, seeds), other.table(key, tasks, seeds)
    return crossed_mean(mine - theirs, span_of(mine, theirs)) if mine.size > 1 else None


def mean_of(arm: MeasuredArm, key: Key) -> CrossedMean | None:
    """Return an arm's mean over its seeds and tasks; None without two values."""
    table = arm.table(key, arm.tasks(key), list(arm.runs))
    return crossed_mean(table) if table.size > 1 else None


def against_it(
    arm: MeasuredArm, other: MeasuredArm | None, key: Key, *, is_rise: bool
) -> AgainstIt | None:
    """Return the difference with failed samples counted against a rise, or a fall, of the arm.

    Without `other`, it is the arm's own mean. None if no sample failed.
    """
    arms = [arm] if other is None else [arm, other]
    counts = tuple(_count(one, key[0]) for one in arms)
    if not any(one.num_failed for one in counts):
        return None
    low, high = _range(arms, key)
    counted = (low, high) if is_rise else (high, low)
    first = arm.counting(key, counted[0])
    if other is None:
        return AgainstIt(mean_of(first, key), counted, counts)
    return AgainstIt(difference(first, other.counting(key, counted[1]), key), counted, counts)


def start_as_arm(start: MeasuredRun, seeds: Iterable[int]) -> MeasuredArm:
    """Return the start as an arm: it has no seeds, so each seed has the same values."""
    return MeasuredArm("start", dict.fromkeys(seeds, start))


def _count(arm: MeasuredArm, set_name: str) -> FailedCount:
    """Return the failed samples of an arm; the start has no seeds, and counts once."""
    runs = {id(run): run for run in arm.runs.values()}.values()
    pairs = [run.counts.get(set_name, (0, 0)) for run in runs]
    return FailedCount(
        name=arm.name,
        num_failed=sum(failed for failed, _ in pairs),
        num_samples=sum(samples for _, samples in pairs),
    )


def failed_counts(arms: Iterable[MeasuredArm], set_name: str) -> list[FailedCount]:
    """Return the failed samples on a set, of each arm with some."""
    return [one for arm in arms if (one := _count(arm, set_name)).num_failed]


def _range(arms: Sequence[MeasuredArm], key: Key) -> tuple[float, float]:
    """Return the lowest and the highest number of a sample of a metric.

    Of a metric without bounds, they are those of the scored samples of all arms.
    """
    if is_bounded(key[1]) and is_from_0_to_1(arms, key):
        return 0.0, 1.0
    found = [run.ranges[key] for arm in arms for run in arm.runs.values() if key in run.ranges]
    return min((low for low, _ in found), default=0.0), max(
        (high for _, high in found), default=0.0
    )
