"""metrics.json of a set, as it is stored."""

from typing import Literal

from pydantic import Field

from assay_shared.types import FailureClass, Status
from assay_shared.types.wire import Wire

#: How a scored answer of a program ended.
ErrorType = Literal[
    "none", "wrong_answer", "syntax_error", "runtime_error", "time_limit", "other_limit"
]


class StoredEstimate(Wire):
    """A value with its confidence interval; an unbounded end is null."""

    value: float
    low: float | None
    high: float | None


class TokenSpread(Wire):
    """Mean, median and 90th percentile of the tokens of scored samples, and their sum."""

    mean: float
    p50: float
    p90: float
    total: float


class CodeMetrics(Wire):
    """Of samples that were tested as programs."""

    num_samples: int
    #: Share of the samples without a syntax error, a runtime error or a limit.
    execution_success: StoredEstimate
    pass_ratio: StoredEstimate
    pass_ratio_p50: float
    pass_ratio_p90: float
    #: Share of the samples by error type.
    error_types: dict[ErrorType, StoredEstimate]


class CostMetrics(Wire):
    """What the scored samples cost, in all and for each accepted one."""

    #: Null if the tokens of a scored sample are not known.
    tokens: TokenSpread | None
    sandbox_cpu_s: float
    judge_s: float
    judge_tokens: float
    money: float
    #: Null if no sample was accepted, or nothing of this was spent, or it is not known; so are the
    #: two below.
    tokens_per_solved: StoredEstimate | None
    #: Seconds of the sandbox's processor and of the judge together.
    judging_s_per_solved: StoredEstimate | None
    money_per_solved: StoredEstimate | None


class RepairMetrics(Wire):
    """Of rounds of repair, and of independent answers for the same sampled tokens.

    Shares are means over tasks; null where nothing was scored.
    """

    accepted_at_multi: StoredEstimate | None
    #: Of the samples whose first program failed: the share that ended accepted.
    recovery_rate: StoredEstimate | None
    #: From the first program to the last.
    pass_ratio_change: StoredEstimate | None
    mean_rounds: float
    #: pass ratio + 0.2 if accepted - 0.05 for each round after the first, of the last program.
    repair_reward: float
    #: How programs followed each other: the number by the error type before and after.
    transitions: dict[ErrorType, dict[ErrorType, int]]
    #: Programs that equal the one before.
    num_repeated: int
    #: Sampled tokens of all rounds, and of the first one with the control.
    tokens: int
    control_tokens: int
    #: Accepted by the first program or by an answer of the control.
    best_of_n: StoredEstimate | None
    #: accepted_at_multi minus best_of_n, paired by task, and whether it is above 0.
    over_best_of_n: StoredEstimate | None
    verdict: Literal["PASS", "FAIL", "INCONCLUSIVE"]


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
    accepted_at_1: StoredEstimate | None
    #: Unbiased pass@k over the tasks with at least k scored samples.
    pass_at: dict[int, StoredEstimate]
    reward: float | None
    outcomes: dict[Status, int]
    #: Means over tasks of the numbers that verifiers noted of samples, scored or not, by name.
    measures: dict[str, StoredEstimate] = Field(default={})
    #: Scored answers without text: only reasoning, only a tool's call, or nothing.
    num_without_text: int = 0
    truncated: StoredEstimate | None
    code: CodeMetrics | None = None
    costs: CostMetrics | None = None
    #: Of `majority`: share of tasks whose most frequent final answer is right.
    majority: StoredEstimate | None = None
    #: Of `budget`: share of tasks solved within the budget.
    solved_in_budget: StoredEstimate | None = None
    #: Of `budget`: the tasks of that share; those with a failed sample are left out.
    num_budget_tasks: int | None = None
    #: Of `repair`; accepted_at_1 and pass_at are then of the first program.
    repair: RepairMetrics | None = None
    #: Of `likelihood`: share of right options by sum and by mean of their tokens.
    by_sum: StoredEstimate | None = None
    by_mean: StoredEstimate | None = None


class CurvePoint(Wire):
    """A point of a curve: over k, or over drawn tokens a task."""

    x: int
    share: StoredEstimate


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
