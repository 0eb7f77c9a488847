"""metrics.json of a set, as it is stored."""

from typing import Literal

from assay_shared.types import FailureClass, Status
from assay_shared.types.wire import Wire

#: How a scored answer of a program ended.
ErrorType = Literal[
    "none", "wrong_answer", "syntax_error", "runtime_error", "time_limit", "other_limit"
]


class Estimate(Wire):
    """A value with its confidence interval; an unbounded end is null."""

    value: float
    low: float | None
    high: float | None


class Spread(Wire):
    """Mean, median and 90th percentile of a quantity of scored samples, and its sum."""

    mean: float
    p50: float
    p90: float
    total: float


class CodeMetrics(Wire):
    """Of answers that are programs."""

    #: Share of the samples without a syntax error, a runtime error or a limit.
    execution_success: Estimate
    pass_ratio: Estimate
    pass_ratio_p50: float
    pass_ratio_p90: float
    #: Share of the samples by error type.
    error_types: dict[ErrorType, Estimate]


class CostMetrics(Wire):
    """What the scored samples cost, in all and for each accepted one."""

    tokens: Spread
    sandbox_cpu_s: float
    judge_s: float
    judge_tokens: float
    money: float
    #: Null if no sample was accepted, or nothing of this was spent; so are the two below.
    tokens_per_solved: Estimate | None
    #: Seconds of the sandbox's processor and of the judge together.
    judging_s_per_solved: Estimate | None
    money_per_solved: Estimate | None


class StratumMetrics(Wire):
    """The numbers of a set, or of its tasks with one value of a tag."""

    num_tasks: int
    #: Tasks with at least one scored sample.
    num_scored_tasks: int
    num_samples: int
    #: Samples without a score, which enter nothing else here.
    num_failed: int
    failures: dict[FailureClass, int]
    #: Null where nothing was scored.
    accepted_at_1: Estimate | None
    #: Unbiased pass@k over the tasks with at least k scored samples.
    pass_at: dict[int, Estimate]
    reward: float | None
    outcomes: dict[Status, int]
    truncated: Estimate | None
    code: CodeMetrics | None = None
    costs: CostMetrics | None = None
    #: Of `majority`: share of tasks whose most frequent final answer is right.
    majority: Estimate | None = None
    #: Of `budget`: share of tasks solved within the budget.
    solved_in_budget: Estimate | None = None
    #: Of `likelihood`: share of right options by sum and by mean of their tokens.
    by_sum: Estimate | None = None
    by_mean: Estimate | None = None


class CurvePoint(Wire):
    """A point of a curve: over k, or over drawn tokens a task."""

    x: int
    share: Estimate


class SetMetrics(Wire):
    """metrics.json."""

    form: Literal[1] = 1
    confidence: float
    overall: StratumMetrics
    #: By tag, and by its value.
    strata: dict[str, dict[str, StratumMetrics]]
    #: pass@k over k, or the solved share over drawn tokens.
    curve: tuple[CurvePoint, ...] = ()
    curve_over: Literal["k", "tokens"] | None = None
    #: Seconds in which samples were played, and scored samples a second of them.
    played_s: float
    samples_per_s: float | None
