"""The metrics of a comparison, each computed from one task's scored samples."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from assay_shared.types import Status
from assay_trainer.comparison.arms import ComparedSample, ComparedTask
from assay_trainer.evaluation.pass_at_k import pass_at_k

TaskValue = Callable[[ComparedTask], float | None]


class Unit(StrEnum):
    """The unit of a metric; a share is shown in percent, and its difference in points."""

    SHARE = "share"
    TOKENS = "tokens"
    SECONDS = "s"


class Better(StrEnum):
    """The direction of an improvement; `neither` has no verdict."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True)
class Metric:
    """A number of a set: the mean over tasks of `value`, or a ratio to the sum of `per`.

    `value` is a task's mean over its samples; None if the task does not tell it.
    """

    name: str
    title: str
    unit: Unit
    better: Better
    value: TaskValue
    per: TaskValue | None = None
    #: The quantile over tasks, in place of the mean.
    quantile: float | None = None
    #: Of sets of programs alone: other answers do not run.
    of_programs: bool = False
    #: Not worth a row if it is 0 for every task of both sides.
    is_rare: bool = False

    @property
    def is_ratio(self) -> bool:
        """True for a cost for each solved task."""
        return self.per is not None

    @property
    def is_tested(self) -> bool:
        """True if the metric gets a p and a verdict."""
        return self.better is not Better.NEITHER and self.quantile is None


#: Programs that ran to their end: right or wrong.
_EXECUTED = frozenset({Status.ACCEPTED, Status.WRONG_ANSWER})
ERROR_TYPES: dict[str, frozenset[Status]] = {
    "syntax_error": frozenset({Status.SYNTAX_ERROR, Status.COMPILE_ERROR}),
    "runtime_error": frozenset({Status.RUNTIME_ERROR, Status.MEMORY_LIMIT, Status.OUTPUT_LIMIT}),
    "time_limit": frozenset({Status.TIME_LIMIT}),
    "wrong_answer": frozenset({Status.WRONG_ANSWER}),
    "ungradable": frozenset({Status.UNGRADABLE}),
}
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
    "avg_judge_time": "scoring_s",
    "cost_per_solved_tokens": "tokens_per_solved",
    "cost_per_solved_judge_time": "scoring_s_per_solved",
}


def share_of(outcomes: frozenset[Status]) -> TaskValue:
    """Return the function that gives the share of a task's samples with one of the outcomes."""

    def value(task: ComparedTask) -> float | None:
        if not task.samples:
            return None
        return fmean(sample.outcome in outcomes for sample in task.samples)

    return value


def mean_of(number: Callable[[ComparedSample], float | None]) -> TaskValue:
    """Return the function that gives a task's mean of `number`; None if a sample lacks it."""

    def value(task: ComparedTask) -> float | None:
        found = [number(sample) for sample in task.samples]
        known = [one for one in found if one is not None]
        return fmean(known) if known and len(known) == len(found) else None

    return value


def _pass_at(k: int) -> TaskValue:
    def value(task: ComparedTask) -> float | None:
        if len(task.samples) < k:
            return None
        num_right = sum(sample.outcome is Status.ACCEPTED for sample in task.samples)
        return pass_at_k(len(task.samples), num_right, k)

    return value


def _majority(task: ComparedTask) -> float | None:
    """Return 1.0 if the most frequent final answer is right; the first of equally frequent ones."""
    votes = Counter(sample.vote for sample in task.samples if sample.vote is not None)
    if not task.samples:
        return None
    if not votes:
        return 0.0
    winner = max(votes, key=votes.__getitem__)
    right = (s.outcome is Status.ACCEPTED for s in task.samples if s.vote == winner)
    return float(next(right))


_accepted = share_of(frozenset({Status.ACCEPTED}))
_tokens = mean_of(lambda sample: sample.num_tokens)
_scoring_s = mean_of(lambda sample: sample.scoring_s)
_pass_ratio = mean_of(lambda sample: sample.pass_ratio)
_truncated = mean_of(lambda s: None if s.truncated is None else float(s.truncated))


def is_of_programs(tasks: Iterable[ComparedTask]) -> bool:
    """Return True if the answers to the tasks are programs: some were tested, or failed to run."""
    return any(
        sample.pass_ratio is not None or sample.outcome not in _EXECUTED
        for task in tasks
        for sample in task.samples
    )


def all_metrics(ks: Iterable[int], has_votes: bool = False) -> list[Metric]:
    """Return the metrics in the order of a report, with pass@k for each of `ks`."""
    share, higher, lower = Unit.SHARE, Better.HIGHER, Better.LOWER
    votes = [Metric("majority", "majority vote right", share, higher, _majority)]
    return [
        *(Metric(f"pass@{k}", f"pass@{k}", share, higher, _pass_at(k)) for k in sorted(ks)),
        *(votes if has_votes else []),
        *_program_metrics(),
        Metric("truncated", "cut off at the limit", share, lower, _truncated, is_rare=True),
        *_costs("tokens", "tokens", Unit.TOKENS, _tokens),
        *_costs("scoring_s", "judging time", Unit.SECONDS, _scoring_s),
    ]


def _program_metrics() -> list[Metric]:
    share, higher, lower, neither = Unit.SHARE, Better.HIGHER, Better.LOWER, Better.NEITHER
    title = "tests passed"
    quantiles = [
        Metric(
            f"pass_ratio_{name}", f"{title}, {name}", share, neither, _pass_ratio, None, quantile
        )
        for name, quantile in (("p50", 0.5), ("p90", 0.9))
    ]
    errors = [
        Metric(
            name,
            name.replace("_", " "),
            share,
            neither if name in ("wrong_answer", "ungradable") else lower,
            share_of(outcomes),
            is_rare=name == "ungradable",
        )
        for name, outcomes in ERROR_TYPES.items()
    ]
    found = [
        Metric("execution_success", "execution success", share, higher, share_of(_EXECUTED)),
        Metric("pass_ratio", f"{title}, mean", share, higher, _pass_ratio),
        *quantiles,
        *errors,
    ]
    return [replace(one, of_programs=True) for one in found]


def _costs(name: str, title: str, unit: Unit, value: TaskValue) -> list[Metric]:
    """Return a cost of a sample, and its cost for each solved task."""
    return [
        Metric(name, f"{title} a sample", unit, Better.LOWER, value, is_rare=True),
        Metric(
            f"{name}_per_solved",
            f"{title} per solved",
            unit,
            Better.LOWER,
            value,
            per=_accepted,
            is_rare=True,
        ),
    ]
