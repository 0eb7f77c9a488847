"""Summary of an evaluation: metrics per cell and difficulty, compared with targets."""

from collections.abc import Iterable, Sequence

from assay_reward.or_debug.evaluate.evaluation import EpisodeRecord
from assay_reward.or_debug.evaluate.intervals import CellEstimate, TargetVerdict, estimate, judge
from assay_shared.types import Wire

OVERALL = "all"
#: Expected RR@5 of a trained policy, if the difficulties of the benchmark are real.
TARGETS = {"easy": (0.9, 1.0), "medium": (0.6, 0.8), "hard": (0.3, 0.5)}
GRADIENT_METRIC = "rr@5"


class CellSummary(Wire):
    """All metrics over the completed episodes of a cell; failed episodes are only counted."""

    policy: str
    cell: str
    num_episodes: int
    num_failed: int
    metrics: dict[str, CellEstimate]


class GradientCheck(Wire):
    """RR@5 of a difficulty against its target."""

    difficulty: str
    low: float
    high: float
    found: CellEstimate | None
    finding: TargetVerdict


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
    measured = [record.metrics for record in records if record.failure is None]
    names = list(dict.fromkeys(name for metrics in measured for name in metrics))
    return CellSummary(
        policy=policy,
        cell=cell,
        num_episodes=len(records),
        num_failed=len(records) - len(measured),
        metrics={
            name: estimate([metrics[name] for metrics in measured if name in metrics])
            for name in names
        },
    )


def _check(
    difficulty: str, span: tuple[float, float], records: Sequence[EpisodeRecord]
) -> GradientCheck:
    low, high = span
    values = [record.metrics[GRADIENT_METRIC] for record in records if record.failure is None]
    found = estimate(values) if values else None
    finding = judge(found, low, high) if found else TargetVerdict.INCONCLUSIVE
    return GradientCheck(difficulty=difficulty, low=low, high=high, found=found, finding=finding)
