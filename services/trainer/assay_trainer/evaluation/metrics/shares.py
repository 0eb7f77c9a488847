"""Shares of tasks solved: by pass@k, majority, budget and likelihood."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate

from assay_shared.statistics.interval import Interval
from assay_shared.statistics.paired import mean_over_tasks
from assay_shared.statistics.task_shares import share_interval
from assay_trainer.evaluation.metrics.outcomes import accepted, known_tokens, scored
from assay_trainer.evaluation.metrics.set_metrics import CurvePoint, StoredEstimate
from assay_trainer.evaluation.pass_at_k import pass_at_k
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord

#: The samples of one task, in the order of their indices.
TaskSamples = Sequence[SampleRecord]
_POINTS = 20


def estimate(found: Interval) -> StoredEstimate:
    """Return an interval as it is stored."""
    low, high = (value if math.isfinite(value) else None for value in (found.low, found.high))
    return StoredEstimate(value=found.value, low=low, high=high)


def share(values: Sequence[float], confidence: float, most_each: int = 1) -> StoredEstimate | None:
    """Return the mean of per-task values with its interval; None without values."""
    return estimate(share_interval(values, confidence, most_each)) if values else None


def mean_share(
    groups: Sequence[TaskSamples], holds: Callable[[SampleRecord], float], confidence: float
) -> StoredEstimate | None:
    """Return the mean over tasks of the mean of `holds` over a task's scored samples."""
    counted = [some for group in groups if (some := scored(group))]
    values = [sum(map(holds, some)) / len(some) for some in counted]
    return share(values, confidence, max(map(len, counted), default=1))


def measures(groups: Sequence[TaskSamples], confidence: float) -> dict[str, StoredEstimate]:
    """Return the mean over tasks of each number that verifiers noted of samples, by name."""
    values: dict[str, list[float]] = {}
    for group in groups:
        noted: dict[str, list[float]] = {}
        for sample in group:
            for name, value in sample.measures.items():
                noted.setdefault(name, []).append(value)
        for name, some in noted.items():
            values.setdefault(name, []).append(sum(some) / len(some))
    return {
        name: estimate(mean_over_tasks(some, confidence, seed=1))
        for name, some in sorted(values.items())
    }


def pass_at(groups: Sequence[TaskSamples], k: int, confidence: float) -> StoredEstimate | None:
    """Return pass@k over the tasks with at least k scored samples; None without such a task."""
    counted = [some for group in groups if len(some := scored(group)) >= k]
    values = [pass_at_k(len(some), sum(map(accepted, some)), k) for some in counted]
    return share(values, confidence, max(map(len, counted), default=1))


def pass_curve(groups: Sequence[TaskSamples], confidence: float) -> list[CurvePoint]:
    """Return pass@k over k, for every power of two and the number of samples."""
    most = max((len(group) for group in groups), default=0)
    ks = sorted({2**i for i in range(most.bit_length()) if 2**i <= most} | ({most} - {0}))
    found = [(k, pass_at(groups, k, confidence)) for k in ks]
    return [CurvePoint(x=k, share=one) for k, one in found if one is not None]


def majority_is_right(samples: TaskSamples) -> bool | None:
    """Return True if the most frequent final answer is accepted; None without a scored sample.

    Of equally frequent answers, the first counts. Without any final answer, none is right.
    """
    some = scored(samples)
    if not some:
        return None
    votes = Counter(one.vote for one in some if one.vote is not None)
    if not votes:
        return False
    winner = votes.most_common(1)[0][0]
    return accepted(next(one for one in some if one.vote == winner))


def majority(groups: Sequence[TaskSamples], confidence: float) -> StoredEstimate | None:
    """Return the share of tasks whose most frequent final answer is right."""
    found = [majority_is_right(group) for group in groups]
    return share([float(one) for one in found if one is not None], confidence)


def tokens_to_solve(samples: TaskSamples) -> float | None:
    """Return the drawn tokens up to the end of the first accepted sample; inf without one.

    None of a task with a failed sample, with unknown tokens, or without samples: nobody knows when
    it would be solved.
    """
    tokens = known_tokens(samples)
    if not samples or tokens is None or any(one.outcome is None for one in samples):
        return None
    ends = accumulate(tokens)
    solved = (end for end, one in zip(ends, samples, strict=True) if accepted(one))
    return next(solved, math.inf)


def solved_within(
    groups: Sequence[TaskSamples], tokens: int, confidence: float
) -> StoredEstimate | None:
    """Return the share of tasks that were solved within a number of drawn tokens."""
    needed = [tokens_to_solve(group) for group in groups]
    return share([float(one <= tokens) for one in needed if one is not None], confidence)


def budget_curve(groups: Sequence[TaskSamples], budget: int, confidence: float) -> list[CurvePoint]:
    """Return the solved share over drawn tokens a task, up to the budget."""
    steps = sorted({max(1, round(budget * i / _POINTS)) for i in range(1, _POINTS + 1)})
    found = [(x, solved_within(groups, x, confidence)) for x in steps]
    return [CurvePoint(x=x, share=one) for x, one in found if one is not None]


def option_is_right(task: EvaluatedTask, sample: SampleRecord, *, by_mean: bool) -> bool:
    """Return True if the right option has the highest log-probability; of equals, the first."""
    scores = sample.option_logprobs
    if by_mean:
        scores = {one: total / sample.option_tokens[one] for one, total in scores.items()}
    return max(scores, key=lambda one: scores[one]) == task.reference
