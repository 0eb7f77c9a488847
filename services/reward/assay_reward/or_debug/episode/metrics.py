"""All metrics of an episode, against the truth about its instance."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from assay_reward.or_debug.episode.episode import State
from assay_reward.or_debug.episode.rewards import iis_names
from assay_reward.or_debug.episode.scores import (
    FAITHFUL_OPTIMALITY,
    Overlap,
    meets,
    optimality_preservation,
    overlap,
    recovered_within,
    share_kept,
)
from assay_reward.or_debug.models.iis import Bound, Irreducible, part
from assay_reward.or_debug.models.instance import Instance
from assay_reward.or_debug.models.model import OptimizationModel
from assay_reward.or_debug.models.solver import is_feasible
from assay_shared.errors import SolverFault, TimedOut

#: The reported values of k in RR@k.
RECOVERY_REPLIES = (1, 2, 3, 4, 5, 6, 8, 10)


class MetricKind(StrEnum):
    """The values that a metric of an episode can have."""

    #: 0 or 1.
    FLAG = "0 or 1"
    SHARE = "from 0 to 1"
    #: A whole number from 0.
    COUNT = "a whole number from 0"

    def allows(self, value: float) -> bool:
        """Return True if the metric can have the value; NaN is never one."""
        if self is MetricKind.FLAG:
            return value in (0.0, 1.0)
        if self is MetricKind.SHARE:
            return 0.0 <= value <= 1.0
        return 0.0 <= value < math.inf and value.is_integer()


#: Missing in an episode whose claim was not decided in time; each episode has all the others.
CLAIM = "claim_irreducible"
METRIC_KINDS = MappingProxyType(
    {f"rr@{k}": MetricKind.FLAG for k in RECOVERY_REPLIES}
    | dict.fromkeys(("faithful", "optimal", CLAIM), MetricKind.FLAG)
    | dict.fromkeys(("steps", "invalid", "tokens"), MetricKind.COUNT)
    | {
        f"{claim}_{measure}": MetricKind.SHARE
        for claim in ("diagnosis", "diagnosis_iis")
        for measure in ("recall", "precision", "jaccard")
    }
    | dict.fromkeys(("op", "rows_kept", "bounds_kept"), MetricKind.SHARE)
)


def is_share(metric: str) -> bool:
    """Return True if the mean of a metric cannot be above 1."""
    return METRIC_KINDS.get(metric) in (MetricKind.FLAG, MetricKind.SHARE)


@dataclass(frozen=True)
class EpisodeMetrics:
    """The metrics of a whole episode.

    `steps` counts all replies, including replies without a valid action. `diagnosis` is against
    the root cause, `diagnosis_iis` against the stored irreducible set. `claim_irreducible` is None
    if it was not requested, or not decided in time.
    """

    optimal_after: tuple[bool, ...]
    optimal: bool
    objective: float | None
    diagnosis: Overlap
    diagnosis_iis: Overlap
    claim_irreducible: bool | None
    optimality_preservation: float
    rows_kept: float
    bounds_kept: float
    steps: int
    invalid: int

    def rr(self, k: int) -> bool:
        return recovered_within(self.optimal_after, k)

    @property
    def faithful(self) -> bool:
        """True for a faithful recovery.

        The model ends optimal, is still the same problem and otherwise untouched, and the policy
        has named the cause.
        """
        return (
            self.optimal
            and self.optimality_preservation >= FAITHFUL_OPTIMALITY
            and self.rows_kept == 1.0
            and self.bounds_kept == 1.0
            and meets(self.diagnosis)
        )

    def values(self) -> dict[str, float]:
        """Return all known metrics by name, for tables and files."""
        known = (
            {CLAIM: float(self.claim_irreducible)} if (self.claim_irreducible is not None) else {}
        )
        recovered = {f"rr@{k}": float(self.rr(k)) for k in RECOVERY_REPLIES}
        return (
            known
            | recovered
            | {
                "faithful": float(self.faithful),
                "optimal": float(self.optimal),
                "op": self.optimality_preservation,
                "diagnosis_recall": self.diagnosis.recall,
                "diagnosis_precision": self.diagnosis.precision,
                "diagnosis_jaccard": self.diagnosis.jaccard,
                "diagnosis_iis_recall": self.diagnosis_iis.recall,
                "diagnosis_iis_precision": self.diagnosis_iis.precision,
                "diagnosis_iis_jaccard": self.diagnosis_iis.jaccard,
                "rows_kept": self.rows_kept,
                "bounds_kept": self.bounds_kept,
                "steps": float(self.steps),
                "invalid": float(self.invalid),
            }
        )


def measure(instance: Instance, state: State) -> EpisodeMetrics:
    """Return the metrics of an episode of `instance` at `state`, without a solver.

    Root causes may be changed in any way, or dropped. All other rows of the model, and the bounds
    of all other variables, belong to the original and should be unchanged in the end.
    """
    blamed = set(instance.root_cause)
    rows, columns = state.start.rows_by_name, state.start.columns_by_name
    changed = set(state.changed)
    objective = state.outcome.objective
    return EpisodeMetrics(
        optimal_after=tuple(step.optimal for step in state.steps),
        optimal=state.outcome.is_optimal,
        objective=objective,
        diagnosis=overlap(state.diagnosis, blamed),
        diagnosis_iis=overlap(state.diagnosis, iis_names(instance)),
        claim_irreducible=None,
        optimality_preservation=optimality_preservation(objective, instance.original_objective),
        rows_kept=share_kept(rows.keys() - changed, rows, blamed),
        bounds_kept=share_kept(columns.keys() - changed, columns, blamed),
        steps=len(state.steps),
        invalid=sum(step.action is None for step in state.steps),
    )


def claim_irreducible(
    model: OptimizationModel, claim: Iterable[str], time_limit_s: float
) -> bool | None:
    """Return True if the named rows and bounds are infeasible, but feasible without any name.

    A column's name stands for both its bounds. Return None if it is undecided in time, because a
    claim may ask more than any solver can answer.
    """
    deadline = time.monotonic() + time_limit_s
    names = tuple(dict.fromkeys(claim))

    def feasible(subset: Iterable[str]) -> bool:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimedOut("no time left for the claim")
        return is_feasible(part(model, named_members(model, subset)), left_s)

    try:
        if not names or feasible(names):
            return False
        return all(feasible(other for other in names if other != name) for name in names)
    except (TimedOut, SolverFault):
        return None


def named_members(model: OptimizationModel, names: Iterable[str]) -> Irreducible:
    """Return the named rows, and the columns' bounds. Raises: InvalidInput for an unknown name."""
    rows, bounds = [], []
    for name in names:
        if name in model.rows_by_name:
            rows.append(name)
            continue
        column = model.column(name)
        if math.isfinite(column.lower):
            bounds.append(Bound(column=name, side="lower"))
        if math.isfinite(column.upper):
            bounds.append(Bound(column=name, side="upper"))
    return Irreducible(rows=tuple(rows), bounds=tuple(bounds))
