"""Summary of an evaluation: metrics per cell and difficulty, compared with targets."""

from collections.abc import Iterable, Sequence

from assay_reward.or_debug.episode.metrics import is_share
from assay_reward.or_debug.evaluate.evaluation import EpisodeRecord
from assay_reward.or_debug.evaluate.intervals import (
    SHARE_ENDS,
    CellEstimate,
    TargetVerdict,
    estimate,
    judge,
)
from assay_shared.types import Wire

OVERALL = "all"
#: Expected RR@5 of a trained policy, if the difficulties of the benchmark are real.
TARGETS = {"easy": (0.9, 1.0), "medium": (0.6, 0.8), "hard": (0.3, 0.5)}
GRADIENT_METRIC = "rr@5"


class CellSummary(Wire):
    """All metrics over the tasks of a cell; failed episodes are only counted."""

    policy: str
    cell: str
    num_episodes: int
    num_failed: int
    metrics: dict[str, CellEstimate]


class GradientCheck(Wire):
    """RR@5 of a difficulty against its target; without an episode there is no finding.

    The finding holds with any result of the failed episodes.
    """

    difficulty: str
    low: float
    high: float
    num_episodes: int
    found: CellEstimate | None
    finding: TargetVerdict | None

    @property
    def told(self) -> str:
        """The finding, or the reason why nothing was measured."""
        if self.finding is not None:
            return self.finding
        lacking = "episode has a result" if self.num_episodes else "tasks"
        return f"not measured: no {self.difficulty} {lacking}"


class EvaluationSummary(Wire):
    """The whole summary: `policy` is the evaluated policy, the others are baselines."""

    policy: str
    cells: tuple[CellSummary, ...]
    gradient: tuple[GradientCheck, ...]

    def of(self, policy: str, cell: str) -> CellSummary | None:
        found = (one for one in self.cells if (one.policy, one.cell) == (policy, cell))
        return next(found, None)

    @property
    def num_failed(self) -> int:
        """The number of episodes without a result, of all policies."""
        return sum(one.num_failed for one in self.cells if one.cell == OVERALL)

    @property
    def policies(self) -> list[str]:
        """The evaluated policy, then the baselines by name."""
        others = {one.policy for one in self.cells} - {self.policy}
        return [self.policy, *sorted(others)]

    @property
    def cell_names(self) -> list[str]:
        """The cells in order, then all cells together."""
        return [one.cell for one in self.cells if one.policy == self.policy]


def summarise(
    policy: str,
    records: Sequence[EpisodeRecord],
    targets: dict[str, tuple[float, float]] | None = None,
) -> EvaluationSummary:
    """Return the summary of each policy in each cell and overall, and the policy's gradient."""
    by_policy: dict[str, list[EpisodeRecord]] = {}
    for record in records:
        by_policy.setdefault(record.policy, []).append(record)
    own = by_policy.get(policy, [])
    return EvaluationSummary(
        policy=policy,
        cells=tuple(
            summary for name, played in by_policy.items() for summary in _cells(name, played)
        ),
        gradient=tuple(
            _check(difficulty, span, [r for r in own if r.difficulty == difficulty])
            for difficulty, span in (TARGETS if targets is None else targets).items()
        ),
    )


def _cells(policy: str, records: Sequence[EpisodeRecord]) -> Iterable[CellSummary]:
    cells = sorted({record.cell for record in records}, key=_order)
    for cell in cells:
        yield _summary(policy, cell, [record for record in records if record.cell == cell])
    yield _summary(policy, OVERALL, records)


def _order(cell: str) -> tuple[str, int]:
    kind, _, difficulty = cell.partition("/")
    ranks = list(TARGETS)
    return kind, ranks.index(difficulty) if difficulty in ranks else len(ranks)


def _summary(policy: str, cell: str, records: Sequence[EpisodeRecord]) -> CellSummary:
    names = dict.fromkeys(name for record in records for name in record.metrics)
    return CellSummary(
        policy=policy,
        cell=cell,
        num_episodes=len(records),
        num_failed=sum(record.failure is not None for record in records),
        metrics={name: found for name in names if (found := over_tasks(records, name)) is not None},
    )


def _check(
    difficulty: str, span: tuple[float, float], records: Sequence[EpisodeRecord]
) -> GradientCheck:
    low, high = span
    found = rate(records, GRADIENT_METRIC)
    return GradientCheck(
        difficulty=difficulty,
        low=low,
        high=high,
        num_episodes=len(records),
        found=found,
        finding=judge(found, low, high, SHARE_ENDS) if found else None,
    )


def over_tasks(
    records: Sequence[EpisodeRecord],
    metric: str,
    difficulty: str | None = None,
    unknown: float | None = None,
) -> CellEstimate | None:
    """Return the mean over tasks with its interval; None if no episode has the metric."""
    values = values_by_task(records, metric, difficulty, unknown)
    return estimate(list(values.values()), is_share=is_share(metric)) if values else None


def rate(
    records: Sequence[EpisodeRecord], metric: str, difficulty: str | None = None
) -> CellEstimate | None:
    """Return the mean over tasks; None if no episode has the metric.

    Failed episodes are in no mean. The interval of a share holds with any result of them.
    """
    found = over_tasks(records, metric, difficulty)
    if found is None or not is_share(metric) or has_all(records, metric):
        return found
    worst, best = (over_tasks(records, metric, difficulty, unknown) for unknown in SHARE_ENDS)
    return reaching(found, worst, best)


def has_all(records: Sequence[EpisodeRecord], metric: str) -> bool:
    """Return True if no episode lacks the metric, as failed ones do."""
    return all(metric in one.metrics for one in records)


def reaching(
    found: CellEstimate, worst: CellEstimate | None, best: CellEstimate | None
) -> CellEstimate:
    """Return the estimate with an interval that reaches those of the worst and the best case."""
    low = min(one.low for one in (found, worst) if one is not None)
    high = max(one.high for one in (found, best) if one is not None)
    return found.model_copy(update={"low": low, "high": high})


def values_by_task(
    records: Sequence[EpisodeRecord],
    metric: str,
    difficulty: str | None = None,
    unknown: float | None = None,
) -> dict[str, float]:
    """Return the mean of each task's episodes: episodes of one task depend on each other.

    Args:
        unknown: the value of an episode without the metric, such as a failed one; without it,
            these episodes are left out.
    """
    found: dict[str, list[float]] = {}
    for record in records:
        value = record.metrics.get(metric, unknown)
        if difficulty in (None, record.difficulty) and value is not None:
            found.setdefault(record.task_id, []).append(value)
    return {task: sum(values) / len(values) for task, values in found.items()}
