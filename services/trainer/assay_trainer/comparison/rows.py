"""The rows of a comparison: estimates, intervals and tests of each metric of each set."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean

import numpy as np

from assay_shared.statistics.binomial import mcnemar_p
from assay_shared.statistics.interval import Interval
from assay_shared.statistics.paired import (
    difference_interval,
    discordance,
    equivalence_p,
    mean_over_tasks,
    sign_flip_p,
)
from assay_shared.statistics.power import (
    detectable,
    detectable_share,
    smallest_significant,
    standard_error,
)
from assay_shared.statistics.quantiles import normal_quantile
from assay_shared.statistics.ratios import (
    label_swap_p,
    log_error,
    relative_equivalence_p,
    relative_interval,
    relative_of,
)
from assay_shared.statistics.resampling import Floats, tails
from assay_shared.statistics.task_shares import ratio_interval, share_interval
from assay_trainer.comparison.arms import ComparedArm, ComparedSet
from assay_trainer.comparison.metrics import Better, Metric, MetricUnit, SetValue, is_of_programs
from assay_trainer.comparison.pairing import (
    Paired,
    PairedSide,
    alone,
    extremes,
    failed_counts,
    pair,
)
from assay_trainer.comparison.results import (
    Bounds,
    ComparedRow,
    FailureBounds,
    PairedTest,
    RowVerdict,
    UncomparedTasks,
)

#: Of all resamples, so that the same files give the same report.
SEED = 0
OnRow = Callable[[], None]


@dataclass(frozen=True)
class Margins:
    """Differences that count as none: of shares as a difference, of other numbers relatively."""

    share: float | None = None
    relative: float | None = None

    def of(self, metric: Metric) -> float | None:
        """Return the margin for a metric; None if there is none."""
        return self.share if metric.unit is MetricUnit.SHARE else self.relative


@dataclass(frozen=True)
class Measure:
    """How rows are measured."""

    metrics: Sequence[Metric]
    confidence: float
    margins: Margins
    #: Tags that split each set.
    tags: Sequence[str] = ()


def rows_of(
    baseline: ComparedArm, arm: ComparedArm, measure: Measure, on_row: OnRow = lambda: None
) -> Iterator[ComparedRow]:
    """Yield the rows of an arm against the baseline: each set, stratum and metric.

    Metrics that no side tells are left out.
    """
    names = list(dict.fromkeys([*baseline.set_names, *arm.set_names]))
    for name in names:
        first, second = baseline.sets_of(name), arm.sets_of(name)
        has_programs = any(is_of_programs(one.tasks.values()) for one in (*first, *second))
        metrics = [one for one in measure.metrics if has_programs or not one.of_programs]
        for stratum, chosen in _strata([*first, *second], measure.tags):
            for metric in metrics:
                if metric.of_set is not None and stratum is not None:
                    continue
                found = _row(metric, first, second, chosen, measure)
                on_row()
                if found is not None:
                    labels = {"set": name, "stratum": stratum, "arm": arm.name}
                    yield found.model_copy(update=labels)


def _strata(
    sets: Sequence[ComparedSet], tags: Sequence[str]
) -> Iterator[tuple[str | None, set[str]]]:
    """Yield the names and tasks of a set and of its strata; tags of the first seed count."""
    tasks = {id_: task for one in reversed(sets) for id_, task in one.tasks.items()}
    yield None, set(tasks)
    for tag in tags:
        for value in sorted({task.tags[tag] for task in tasks.values() if tag in task.tags}):
            chosen = {id_ for id_, task in tasks.items() if task.tags.get(tag) == value}
            yield f"{tag}={value}", chosen


def _row(
    metric: Metric,
    first: Sequence[ComparedSet],
    second: Sequence[ComparedSet],
    chosen: set[str],
    measure: Measure,
) -> ComparedRow | None:
    if metric.of_set is not None:
        return _set_row(metric, metric.of_set, first, second)
    if not first or not second:
        return _one_sided(metric, first or second, chosen, measure, is_new=not first)
    paired = pair(metric, first, second, chosen)
    if not paired.ids:
        # Without shared tasks, or without the metric on a side, each side is shown alone.
        return _unpaired(metric, first, second, chosen, measure, paired.left_out)
    constant = _constant(paired)
    if metric.is_rare and constant == 0.0:
        return None
    if metric.of_programs and constant in (0.0, 1.0):
        # Nothing differs, so a test would only burden the correction of the others.
        metric = replace(metric, better=Better.NEITHER)
    twin = next((one for one in measure.metrics if one.name == metric.twin), None)
    if twin is None or not paired.equals(pair(twin, first, second, chosen)):
        row = _paired_row(metric, paired, measure)
        return row if row.p is None else _with_failed(metric, first, second, chosen, measure, row)
    row = _paired_row(replace(metric, better=Better.NEITHER), paired, measure)
    return row.model_copy(update={"equal_to": twin.name})


def _set_row(
    metric: Metric, value: SetValue, first: Sequence[ComparedSet], second: Sequence[ComparedSet]
) -> ComparedRow | None:
    """Return the row of a number of whole sets: the mean over seeds, without intervals."""
    old, new = (_mean_of_sets(value, sets) for sets in (first, second))
    if old is None and new is None:
        return None
    num_tasks = len(set.intersection(*(set(one.tasks) for one in (*first, *second))))
    verdict = RowVerdict.UNTESTED
    if old is None or new is None:
        verdict = RowVerdict.NEW if old is None else RowVerdict.MISSING
    empty = _empty(metric, num_tasks, UncomparedTasks())
    return empty.model_copy(update={"baseline": old, "value": new, "verdict": verdict})


def _mean_of_sets(value: SetValue, sets: Sequence[ComparedSet]) -> Bounds | None:
    found = [known for one in sets if (known := value(one)) is not None]
    if not found or len(found) < len(sets):
        return None
    return Bounds(value=fmean(found), low=None, high=None)


def _one_sided(
    metric: Metric, sets: Sequence[ComparedSet], chosen: set[str], measure: Measure, is_new: bool
) -> ComparedRow | None:
    if not sets:
        return None
    side, num_tasks = alone(metric, sets, chosen)
    if not num_tasks:
        return None
    bounds = Bounds.of(_estimate(metric, side, measure.confidence))
    empty = _empty(metric, num_tasks, UncomparedTasks())
    if is_new:
        changed = {"value": bounds, "seeds_arm": side.spread(metric), "verdict": RowVerdict.NEW}
    else:
        changed = {
            "baseline": bounds,
            "seeds_baseline": side.spread(metric),
            "verdict": RowVerdict.MISSING,
        }
    return empty.model_copy(update=changed)


def _unpaired(
    metric: Metric,
    first: Sequence[ComparedSet],
    second: Sequence[ComparedSet],
    chosen: set[str],
    measure: Measure,
    left_out: UncomparedTasks,
) -> ComparedRow | None:
    """Return a row without a comparison: the metric of one side, or of two without shared tasks."""
    (before, num_before), (after, num_after) = (
        alone(metric, sets, chosen) for sets in (first, second)
    )
    if not num_before and not num_after:
        return None
    shown = _empty(metric, 0, left_out).model_copy(
        update={
            "baseline": Bounds.of(_estimate(metric, before, measure.confidence))
            if num_before
            else None,
            "value": Bounds.of(_estimate(metric, after, measure.confidence)) if num_after else None,
        }
    )
    if not num_before:
        return shown.model_copy(update={"verdict": RowVerdict.NEW})
    if not num_after:
        return shown.model_copy(update={"verdict": RowVerdict.MISSING})
    return shown


def _empty(metric: Metric, num_tasks: int, left_out: UncomparedTasks) -> ComparedRow:
    return ComparedRow(
        set="",
        stratum=None,
        metric=metric.name,
        title=metric.title,
        unit=metric.unit,
        better=metric.better,
        arm="",
        num_tasks=num_tasks,
        left_out=left_out,
        of_machine=metric.of_machine,
        baseline=None,
        value=None,
    )


def _constant(paired: Paired) -> float | None:
    """Return the value that all tasks of both sides have; None if some differ."""
    both = np.unique(np.concatenate([paired.before.values, paired.after.values]))
    return float(both[0]) if len(both) == 1 else None


def _estimate(metric: Metric, side: PairedSide, confidence: float) -> Interval | None:
    """Return the metric of one side with its interval over tasks."""
    columns = side.columns
    values = columns.numerator.tolist()
    if metric.quantile is not None:
        found = side.quantile_resamples(metric.quantile, SEED)
        return _percentiles(side.estimate(metric), found, len(values), confidence)
    if metric.is_ratio:
        return ratio_interval(values, columns.denominator.tolist(), confidence, SEED)
    if metric.unit is MetricUnit.SHARE:
        return share_interval(values, confidence, side.most_samples)
    return mean_over_tasks(values, confidence, SEED)


def _percentiles(value: float, found: Floats, num_tasks: int, confidence: float) -> Interval:
    low, high = np.quantile(found, tails(num_tasks, confidence))
    if low == high:
        # Resampling says nothing about a quantile that is the same in all resamples.
        return Interval(value, float("-inf"), float("inf"))
    return Interval(value, min(value, float(low)), max(value, float(high)))


def _paired_row(metric: Metric, paired: Paired, measure: Measure) -> ComparedRow:
    before, after = paired.before, paired.after
    old, new = before.columns.numerator, after.columns.numerator
    num_up, num_down = (0, 0) if metric.is_ratio else discordance(old.tolist(), new.tolist())
    row = _empty(metric, len(paired.ids), paired.left_out).model_copy(
        update={
            "baseline": Bounds.of(_estimate(metric, before, measure.confidence)),
            "value": Bounds.of(_estimate(metric, after, measure.confidence)),
            "num_up": num_up,
            "num_down": num_down,
            "seeds_baseline": before.spread(metric),
            "seeds_arm": after.spread(metric),
        }
    )
    if metric.of_machine:
        # An interval over tasks would leave out the load that all of them share.
        return row
    change = Bounds.of(_difference(metric, before, after, measure.confidence))
    row = row.model_copy(update={"difference": change})
    if metric.quantile is not None:
        return row
    relative = relative_interval(before.columns, after.columns, measure.confidence, SEED)
    row = row.model_copy(update={"relative": Bounds.of(relative)})
    return _tested(metric, paired, measure, row) if metric.is_tested else row


def _with_failed(
    metric: Metric,
    first: Sequence[ComparedSet],
    second: Sequence[ComparedSet],
    chosen: set[str],
    measure: Measure,
    row: ComparedRow,
) -> ComparedRow:
    """Return a tested row with the effect of its failed samples; itself if none failed."""
    before, after = failed_counts(first, second, chosen)
    if not before.num_failed and not after.num_failed:
        return row
    low, high = extremes(metric, (*first, *second), chosen)
    lowest, highest = (
        _paired_row(metric, pair(metric, first, second, chosen, counted), measure)
        for counted in ((high, low), (low, high))
    )
    is_rise = row.headline is not None and row.headline.value > 0
    case = lowest if is_rise else highest
    is_turned = case.headline is None or (case.headline.value > 0) is not is_rise
    equivalence = [one.p_equivalence for one in (row, lowest, highest)]
    found = FailureBounds(
        baseline_failed=before.num_failed,
        baseline_samples=before.num_samples,
        arm_failed=after.num_failed,
        arm_samples=after.num_samples,
        baseline_counted=(high if is_rise else low).value,
        arm_counted=(low if is_rise else high).value,
        against=case.headline,
        p=1.0 if is_turned or case.p is None else max(row.p or 0.0, case.p),
        p_equivalence=None
        if row.p_equivalence is None
        else max(1.0 if one is None else one for one in equivalence),
        difference=_widened(row.difference, lowest.difference, highest.difference),
        relative=_widened(row.relative, lowest.relative, highest.relative),
    )
    return row.model_copy(update={"failed": found})


def _widened(found: Bounds | None, *others: Bounds | None) -> Bounds | None:
    """Return an estimate with bounds around those of all; None if one of them is not known."""
    known = [one.interval for one in (found, *others) if one is not None]
    if found is None or len(known) <= len(others):
        return None
    low, high = min(one.low for one in known), max(one.high for one in known)
    return Bounds.of(Interval(found.value, low, high))


def _difference(
    metric: Metric, before: PairedSide, after: PairedSide, confidence: float
) -> Interval | None:
    """Return the difference with its interval; a cost's interval is that of its relative change."""
    value = after.estimate(metric) - before.estimate(metric)
    if metric.is_ratio:
        return Interval(value, float("-inf"), float("inf")) if isfinite(value) else None
    old, new = before.columns.numerator, after.columns.numerator
    if metric.quantile is not None:
        found = after.quantile_resamples(metric.quantile, SEED)
        found -= before.quantile_resamples(metric.quantile, SEED)
        return _percentiles(value, found, len(old), confidence)
    span = 1.0 if metric.unit is MetricUnit.SHARE else float(max(old.max(), new.max())) or 1.0
    return difference_interval(old.tolist(), new.tolist(), confidence, SEED, span)


def _tested(metric: Metric, paired: Paired, measure: Measure, row: ComparedRow) -> ComparedRow:
    """Return the row with its p, what it could detect, and the p of equivalence."""
    before, after = paired.before.columns, paired.after.columns
    old, new = before.numerator.tolist(), after.numerator.tolist()
    margin, alpha = measure.margins.of(metric), 1 - measure.confidence
    equivalence: float | None = None
    if metric.unit is not MetricUnit.SHARE:
        if row.relative is None:
            return row
        if margin is not None:
            equivalence = relative_equivalence_p(before, after, margin, SEED)
        z = normal_quantile(1 - alpha / 2)
        error = log_error(row.relative.interval, z)
        change = relative_of(detectable(error, alpha))
        changed: dict[str, object] = {
            "test": PairedTest.LABEL_SWAPS,
            "p": label_swap_p(before, after, SEED),
            "detectable": change if isfinite(change) else None,
        }
    else:
        if margin is not None:
            equivalence = equivalence_p(old, new, margin, SEED)
        changed = _share_test(old, new, row, measure.confidence)
    changed |= {"margin": margin, "p_equivalence": equivalence}
    return row.model_copy(update=changed)


def _share_test(
    old: list[float], new: list[float], row: ComparedRow, confidence: float
) -> dict[str, object]:
    alpha, num_tasks = 1 - confidence, row.num_tasks
    if {*old, *new} <= {0.0, 1.0}:
        num_moved = row.num_up + row.num_down
        return {
            "test": PairedTest.MCNEMAR,
            "p": mcnemar_p(row.num_up, row.num_down),
            "smallest_significant": smallest_significant(num_tasks, num_moved, alpha),
            "detectable": detectable_share(num_tasks, num_moved, alpha),
        }
    assert row.difference is not None
    error = standard_error(row.difference.interval, confidence)
    return {
        "test": PairedTest.SIGN_FLIPS,
        "p": sign_flip_p(old, new, SEED),
        "smallest_significant": normal_quantile(1 - alpha / 2) * error,
        "detectable": detectable(error, alpha),
    }
