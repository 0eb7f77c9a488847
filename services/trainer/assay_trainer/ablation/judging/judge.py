"""Verdicts on arms: differences over seeds and tasks together, Holm's correction, A/A noise."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, isfinite, sqrt
from statistics import median

import numpy as np

from assay_shared.statistics.multiplicity import holm
from assay_trainer.ablation.judging.crossed import CrossedMean, crossed_mean
from assay_trainer.ablation.judging.differences import (
    AgainstIt,
    against_it,
    difference,
    failed_counts,
    is_from_0_to_1,
)
from assay_trainer.ablation.judging.findings import (
    ChangeRow,
    CountedAgainst,
    JudgedVerdict,
    NoiseRow,
    TableRow,
    ValueBounds,
)
from assay_trainer.ablation.judging.measurements import Key, MeasuredArm
from assay_trainer.ablation.metrics import is_bounded, is_lower_better

#: With fewer seeds, nothing is decided: two or three cannot tell their own spread.
LEAST_SEEDS = 4
_MOST_FREEDOM = 1e6
#: Two ways to one mean differ by less.
_ROUNDING = 1e-9
_NORMAL_95 = 1.96


@dataclass(frozen=True)
class _Difference:
    arm: str
    against: str
    key: Key
    found: CrossedMean
    #: Of the other arm's values, if both arms' values are from 0 to 1.
    other_mean: float | None
    #: None without failed samples.
    against_it: AgainstIt | None

    @property
    def p_against_it(self) -> float:
        """The p with failed samples counted against the difference; 1 if it turns round."""
        case = self.against_it
        if case is None:
            return self.found.p
        if case.found is None or case.found.value * self.found.value <= 0:
            return 1.0
        return max(self.found.p, case.found.p)


def value_row(arm: MeasuredArm, key: Key, confidence: float) -> TableRow | None:
    """Return an arm's value; None if no task has one in every seed."""
    tasks, seeds = arm.tasks(key), list(arm.runs)
    table = arm.table(key, tasks, seeds)
    if table.size < 2:
        return None
    found = crossed_mean(table)
    bounds = within(bounds_of(found, confidence), key[1], table.ravel())
    means = [float(one) for one in table.mean(axis=1)]
    return TableRow(
        policy=arm.name,
        kind="arm",
        set=key[0],
        metric=key[1],
        value=bounds,
        seeds=means,
        num_tasks=len(tasks),
        failed=next(iter(failed_counts([arm], key[0])), None),
    )


def bounds_of(found: CrossedMean, confidence: float) -> ValueBounds:
    interval = found.interval(confidence)
    low, high = interval.low, interval.high
    if not (isfinite(low) and isfinite(high)):
        return ValueBounds(value=interval.value)
    return ValueBounds(value=interval.value, low=low, high=high)


def within(bounds: ValueBounds, metric: str, values: Iterable[float]) -> ValueBounds:
    """Return the bounds of a metric's mean; if all values are from 0 to 1, so are the bounds.

    A number of tokens is not below 0, and may be above 1 though no value is.
    """
    if bounds.low is None or bounds.high is None:
        return bounds
    if not is_bounded(metric):
        return bounds.model_copy(update={"low": max(0.0, bounds.low)})
    if not all(0 <= one <= 1 for one in values):
        return bounds
    return ValueBounds(value=bounds.value, low=max(0.0, bounds.low), high=min(1.0, bounds.high))


def within_difference(bounds: ValueBounds) -> ValueBounds:
    """Return the bounds of a difference of two means from 0 to 1."""
    if bounds.low is None or bounds.high is None:
        return bounds
    low, high = max(-1.0, bounds.low), min(1.0, bounds.high)
    return ValueBounds(value=bounds.value, low=low, high=high)


def judge_changes(
    pairs: Sequence[tuple[MeasuredArm, MeasuredArm]], keys: Sequence[Key], confidence: float
) -> list[ChangeRow]:
    """Return the differences of all pairs as one family: Holm's correction is over all of them.

    A metric with the numbers of an earlier one is the same test, and has the p of that one.
    """
    same = equal_metrics([arm for pair in pairs for arm in pair], keys)
    found = [one for pair in pairs for key in keys if (one := _difference(*pair, key)) is not None]
    tests = [one for one in found if one.key not in same]
    corrected = _corrected(tests, [one.found.p for one in tests])
    against = _corrected(tests, [one.p_against_it for one in tests])
    strictest = (1 - confidence) / max(1, len(tests))
    rows = []
    for one in found:
        first = same.get(one.key, one.key)
        place = (one.arm, one.against, first)
        row = _row(one, corrected[place], against[place], confidence, strictest)
        rows.append(row if first == one.key else row.model_copy(update={"same_as": first[1]}))
    return rows


def _difference(arm: MeasuredArm, other: MeasuredArm, key: Key) -> _Difference | None:
    found = difference(arm, other, key)
    if found is None:
        return None
    case = against_it(arm, other, key, is_rise=found.value > 0)
    return _Difference(arm.name, other.name, key, found, _mean_of_share(arm, other, key), case)


def _corrected(
    tests: Sequence[_Difference], values: Sequence[float]
) -> dict[tuple[str, str, Key], float]:
    """Return each test's p after Holm's correction, by arms and metric."""
    pairs = zip(tests, holm(values), strict=True)
    return {(one.arm, one.against, one.key): p for one, p in pairs}


def equal_metrics(arms: Sequence[MeasuredArm], keys: Sequence[Key]) -> dict[Key, Key]:
    """Return metrics whose numbers are those of an earlier one of their set, with that one.

    As pass@1 and the reward under a rubric of 0 and 1: in every task of every seed of all arms.
    """
    found: dict[Key, Key] = {}
    for later, key in enumerate(keys):
        firsts = (one for one in keys[:later] if one[0] == key[0] and one not in found)
        first = next((one for one in firsts if _are_equal(arms, one, key)), None)
        if first is not None:
            found[key] = first
    return found


def _are_equal(arms: Sequence[MeasuredArm], one: Key, other: Key) -> bool:
    for arm in arms:
        for run in arm.runs.values():
            mine, theirs = run.values.get(one, {}), run.values.get(other, {})
            if mine.keys() != theirs.keys():
                return False
            if any(abs(value - theirs[id_]) > _ROUNDING for id_, value in mine.items()):
                return False
    return True


def _mean_of_share(arm: MeasuredArm, other: MeasuredArm, key: Key) -> float | None:
    if not is_from_0_to_1((arm, other), key):
        return None
    return float(other.table(key, other.tasks(key), list(other.runs)).mean())


def _detectable(one: _Difference, alpha: float) -> float | None:
    """Return the smallest difference to be found; None if there can be none as large.

    None too with so few seeds that nothing is decided.
    """
    if one.found.num_seeds < LEAST_SEEDS:
        return None
    found = one.found.detectable(alpha)
    mean = one.other_mean
    most = inf if mean is None else max(mean, 1 - mean)
    return found if isfinite(found) and found <= most else None


def _row(
    one: _Difference, p: float, p_against: float, confidence: float, strictest: float
) -> ChangeRow:
    mean = one.found
    bounds = bounds_of(mean, confidence)
    if one.other_mean is not None:
        bounds = within_difference(bounds)
    higher, alpha = not is_lower_better(one.key[1]), 1 - confidence
    alone = _verdict(mean, p, alpha, higher=higher)
    case = one.against_it and failed_case(one.against_it, alone, confidence, p_against)
    return ChangeRow(
        arm=one.arm,
        against=one.against,
        set=one.key[0],
        metric=one.key[1],
        change=bounds,
        p=mean.p,
        p_corrected=p,
        num_seeds=mean.num_seeds,
        num_tasks=mean.num_tasks,
        freedom=min(mean.freedom, _MOST_FREEDOM),
        detectable=_detectable(one, strictest),
        verdict=_verdict(mean, p_against, alpha, higher=higher) if case else alone,
        higher_is_better=higher,
        failed=case,
    )


def failed_case(
    case: AgainstIt, without: JudgedVerdict, confidence: float, p: float | None = None
) -> CountedAgainst:
    """Return the effect of failed samples on the verdict `without` them, as a report has it."""
    found = None if case.found is None else bounds_of(case.found, confidence)
    return CountedAgainst(
        counts=list(case.counts),
        counted=case.counted,
        found=found,
        p_corrected=p,
        verdict_without=without,
    )


def _verdict(mean: CrossedMean, p: float, alpha: float, *, higher: bool) -> JudgedVerdict:
    if mean.num_seeds < LEAST_SEEDS or p >= alpha:
        return JudgedVerdict.INCONCLUSIVE
    return JudgedVerdict.PASS if (mean.value > 0) == higher else JudgedVerdict.FAIL


def against_bound(
    mean: CrossedMean, bound: float, confidence: float, *, at_least: bool
) -> JudgedVerdict:
    """Return PASS if the whole interval lies beyond the bound, FAIL if all of it lies before it.

    An interval that touches the bound is INCONCLUSIVE.
    """
    if mean.num_seeds < LEAST_SEEDS:
        return JudgedVerdict.INCONCLUSIVE
    interval = mean.interval(confidence)
    is_above, is_below = interval.low > bound, interval.high < bound
    if is_above or is_below:
        return JudgedVerdict.PASS if is_above == at_least else JudgedVerdict.FAIL
    return JudgedVerdict.INCONCLUSIVE


def noise(arms: Sequence[MeasuredArm], key: Key) -> NoiseRow | None:
    """Return how far the seeds of one arm are from each other; None with one seed an arm."""
    gaps, squares, num_free = [], 0.0, 0
    for arm in arms:
        tasks, seeds = arm.tasks(key), list(arm.runs)
        if len(seeds) < 2 or not tasks:
            continue
        means = arm.table(key, tasks, seeds).mean(axis=1)
        gaps += [abs(float(a - b)) for a, b in combinations(means, 2)]
        squares += float(((means - means.mean()) ** 2).sum())
        num_free += len(seeds) - 1
    if not gaps:
        return None
    deviation = float(np.sqrt(squares / num_free))
    floor = _NORMAL_95 * sqrt(2) * deviation
    return NoiseRow(
        set=key[0],
        metric=key[1],
        num_pairs=len(gaps),
        deviation=deviation,
        median=median(gaps),
        largest=max(gaps),
        floor=min(floor, 1.0) if is_from_0_to_1(arms, key) else floor,
    )
