"""The metrics of a comparison, each computed from one task's scored samples."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import fsum
from statistics import fmean
from typing import Protocol

from assay_trainer.comparison.arms import ComparedSet, ComparedTask
from assay_trainer.evaluation.metrics.outcomes import ERROR_TYPES, accepted, error_type, ran
from assay_trainer.evaluation.metrics.repair import first_program
from assay_trainer.evaluation.metrics.shares import majority_is_right
from assay_trainer.evaluation.pass_at_k import pass_at_k
from assay_trainer.evaluation.records.protocol import ProtocolKind
from assay_trainer.evaluation.records.sample_record import SampleRecord

SetValue = Callable[[ComparedSet], float | None]
SampleValue = Callable[[SampleRecord], float]


class TaskValue(Protocol):
    """The number of a task; None if the task does not tell it.

    Each failed sample counts as `failed`; if that is None, failed samples are left out.
    """

    def __call__(self, task: ComparedTask, failed: float | None = None, /) -> float | None: ...


class MetricUnit(StrEnum):
    """The unit of a metric; a share is shown in percent, and its difference in points."""

    SHARE = "share"
    TOKENS = "tokens"
    SECONDS = "s"
    RATE = "1/s"


class Better(StrEnum):
    """The direction of an improvement; `neither` has no verdict."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True)
class Metric:
    """A number of a set: the mean over tasks of `value`, or a ratio to the sum of `per`.

    `value` is a task's mean over its samples, and its sum for a ratio; None if the task does not
    tell it.
    """

    name: str
    title: str
    unit: MetricUnit
    better: Better
    value: TaskValue
    per: TaskValue | None = None
    #: Of a metric without bounds: a sample's number. All others are from 0 to 1.
    number: SampleValue | None = None
    #: The quantile over tasks, in place of the mean.
    quantile: float | None = None
    #: Of sets of programs alone: other answers do not run.
    of_programs: bool = False
    #: Not worth a row if it is 0 for every task of both sides.
    is_rare: bool = False
    #: Moves with the machine and its load, which all tasks of an evaluation share.
    of_machine: bool = False
    #: The metric that it equals in some sets: that one has the test.
    twin: str | None = None
    #: The number of a whole set, which has none of a task.
    of_set: SetValue | None = None

    @property
    def is_ratio(self) -> bool:
        """True for a cost for each solved task."""
        return self.per is not None

    @property
    def is_tested(self) -> bool:
        """True if the metric gets a p and a verdict."""
        is_observed = self.quantile is None and not self.of_machine
        return self.better is not Better.NEITHER and is_observed


ACCEPTED_AT_MULTI = "accepted_at_multi"
#: Other names that people know: those of published evaluation protocols.
ALIASES = {
    "accepted@1": "pass@1",
    "accepted_at_1": "pass@1",
    "exec_success": "execution_success",
    "exec_success_rate": "execution_success",
    "pass_ratio_mean": "pass_ratio",
    "syntax_error_rate": "syntax_error",
    "runtime_error_rate": "runtime_error",
    "timeout": "time_limit",
    "timeout_rate": "time_limit",
    "wrong_answer_rate": "wrong_answer",
    "truncation": "truncated",
    "avg_gen_tokens": "tokens",
    "avg_judge_time": "judging_s",
    "throughput": "samples_per_s",
    "cost_per_solved_tokens": "tokens_per_solved",
    "cost_per_solved_judge_time": "judging_s_per_solved",
}


def _numbers(
    task: ComparedTask, samples: Sequence[SampleRecord], number: SampleValue, failed: float | None
) -> list[float]:
    """Return the numbers of scored samples, and `failed` for each failed one unless it is None."""
    return [*map(number, samples), *([] if failed is None else [failed] * task.num_failed)]


def _of_samples(number: SampleValue, *, of_programs: bool = False) -> TaskValue:
    """Return the function for a task's mean of `number` over its samples.

    With `of_programs`, over the samples tested as programs; of a run, over all.
    """

    def value(task: ComparedTask, failed: float | None = None, /) -> float | None:
        samples = task.samples
        if of_programs and task.has_costs:
            samples = [one for one in samples if one.pass_ratio is not None]
            if task.samples and not samples:
                return None
        numbers = _numbers(task, samples, number, failed)
        return fmean(numbers) if numbers else None

    return value


def _of_programs(number: SampleValue) -> TaskValue:
    return _of_samples(number, of_programs=True)


def _if_kept(value: TaskValue) -> TaskValue:
    """Return the same for a number not kept by all evaluations: None for those of a run."""
    return lambda task, failed=None: value(task, failed) if task.has_costs else None


def _cost(number: SampleValue) -> TaskValue:
    return _if_kept(_of_samples(number))


def _sum(number: SampleValue) -> TaskValue:
    """Return the function that gives a task's sum of `number`; None if it was not kept."""

    def value(task: ComparedTask, failed: float | None = None, /) -> float | None:
        numbers = _numbers(task, task.samples, number, failed)
        return fsum(numbers) if task.has_costs and numbers else None

    return value


def _pass_at(k: int) -> TaskValue:
    """Return the function for a task's pass@k; with repair, of the first programs."""

    def value(task: ComparedTask, failed: float | None = None, /) -> float | None:
        firsts = [first_program(one) for one in task.samples]
        numbers = _numbers(task, firsts, accepted, failed)
        return None if len(numbers) < k else pass_at_k(len(numbers), round(sum(numbers)), k)

    return value


def _majority(task: ComparedTask, failed: float | None = None, /) -> float | None:
    """Return 1.0 if the most frequent answer is right; failed votes could be for any answer."""
    if failed is not None and task.num_failed:
        return failed
    found = majority_is_right(task.samples)
    return None if found is None else float(found)


def _solved(task: ComparedTask, failed: float | None = None, /) -> float | None:
    """Return 1.0 if a sample is right; None with a failure: nobody knows if it would be."""
    if failed is None and task.num_failed:
        return None
    numbers = _numbers(task, task.samples, accepted, failed)
    return max(map(float, numbers)) if numbers else None


def _tokens(sample: SampleRecord) -> float:
    """Return the sample's tokens. `_if_known` leaves out sets where a number is not known."""
    return sample.num_tokens or 0


def _if_known(value: TaskValue) -> TaskValue:
    """Return the same for a cost in tokens: None in a set where some tokens are not known."""
    return lambda task, failed=None: value(task, failed) if task.has_tokens else None


def _judging_s(sample: SampleRecord) -> float:
    return sample.sandbox_cpu_s + sample.judge_s


def is_of_programs(tasks: Iterable[ComparedTask]) -> bool:
    """Return True if the answers to the tasks are programs: some were tested, or failed to run."""
    return any(
        sample.pass_ratio is not None or not ran(sample)
        for task in tasks
        for sample in task.samples
    )


def all_metrics(ks: Iterable[int], kinds: Iterable[ProtocolKind] = ProtocolKind) -> list[Metric]:
    """Return the metrics in the order of a report, with pass@k for each of `ks`.

    `kinds` are those of the compared protocols: a majority vote, a budget and repair have their
    metrics.
    """
    share, higher, known = MetricUnit.SHARE, Better.HIGHER, set(kinds)
    own = {
        ProtocolKind.MAJORITY: Metric("majority", "majority vote right", share, higher, _majority),
        ProtocolKind.BUDGET: Metric(
            "solved_in_budget", "solved in the budget", share, higher, _solved
        ),
        ProtocolKind.REPAIR: Metric(
            ACCEPTED_AT_MULTI,
            "accepted after the last round",
            share,
            higher,
            _of_samples(accepted),
        ),
    }
    truncated = _cost(lambda sample: sample.truncated)
    return [
        *(metric for kind, metric in own.items() if kind in known),
        *(Metric(f"pass@{k}", f"pass@{k}", share, higher, _pass_at(k)) for k in sorted(ks)),
        # With one test a task, a program passes all tests or none.
        *_program_metrics(ACCEPTED_AT_MULTI if known == {ProtocolKind.REPAIR} else "pass@1"),
        Metric("truncated", "cut off at the limit", share, Better.LOWER, truncated, is_rare=True),
        *(
            replace(one, value=_if_known(one.value))
            for one in _costs("tokens", "tokens", MetricUnit.TOKENS, _tokens)
        ),
        *(
            replace(one, of_machine=True)
            for one in _costs("judging_s", "judging time", MetricUnit.SECONDS, _judging_s)
        ),
        Metric(
            "samples_per_s",
            "samples a second",
            MetricUnit.RATE,
            higher,
            lambda *_: None,
            of_machine=True,
            of_set=lambda one: one.samples_per_s,
        ),
    ]


def _program_metrics(twin: str) -> list[Metric]:
    share, higher, lower, neither = MetricUnit.SHARE, Better.HIGHER, Better.LOWER, Better.NEITHER
    ratio = _if_kept(_of_programs(lambda sample: sample.pass_ratio or 0.0))
    title = "tests passed"
    quantiles = [
        Metric(f"pass_ratio_{name}", f"{title}, {name}", share, neither, ratio, quantile=quantile)
        for name, quantile in (("p50", 0.5), ("p90", 0.9))
    ]
    errors = [
        Metric(
            name,
            name.replace("_", " "),
            share,
            neither if name == "wrong_answer" else lower,
            _of_programs(_is_of(name)),
            is_rare=name == "other_limit",
        )
        for name in dict.fromkeys(ERROR_TYPES.values())
        if name != "none"
    ]
    found = [
        Metric("execution_success", "execution success", share, higher, _of_programs(ran)),
        Metric("pass_ratio", f"{title}, mean", share, higher, ratio, twin=twin),
        *quantiles,
        *errors,
    ]
    return [replace(one, of_programs=True) for one in found]


def _is_of(kind: str) -> SampleValue:
    return lambda sample: error_type(sample) == kind


def _costs(name: str, title: str, unit: MetricUnit, number: SampleValue) -> list[Metric]:
    """Return a cost of a sample, and its cost for each solved sample."""
    return [
        Metric(
            name,
            f"{title} a sample",
            unit,
            Better.LOWER,
            _cost(number),
            number=number,
            is_rare=True,
        ),
        Metric(
            f"{name}_per_solved",
            f"{title} per solved",
            unit,
            Better.LOWER,
            _sum(number),
            per=_sum(accepted),
            number=number,
            is_rare=True,
        ),
    ]
