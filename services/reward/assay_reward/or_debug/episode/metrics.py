"""All metrics of one episode, against what is known about its instance."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

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

#: The k of RR@k that are told.
RECOVERY_REPLIES = (1, 2, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True)
class EpisodeMetrics:
    """What one whole episode comes to.

    `steps` counts replies, those that held no valid action included. `diagnosis` is against the
    root cause, `diagnosis_iis` against the stored irreducible set. `claim_irreducible` is null
    where it was not asked for, or could not be told in time.
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
        """Optimal in the end, still the same problem, nothing else touched, the cause named."""
        return (
            self.optimal
            and self.optimality_preservation >= FAITHFUL_OPTIMALITY
            and self.rows_kept == 1.0
            and self.bounds_kept == 1.0
            and meets(self.diagnosis)
        )

    def values(self) -> dict[str, float]:
        """All metrics by name, for tables and files; without those that are not known."""
        known = (
            {"claim_irreducible": float(self.claim_irreducible)}
            if (self.claim_irreducible is not None)
            else {}
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
    """The metrics of an episode of `instance` as it stands in `state`; needs no solver.

    Root causes may be changed in any way, or dropped; every other row of the model, and the bounds
    of every other variable, are those of the original and should be there in the end.
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
    """Whether the named rows, and bounds of the named columns, are infeasible by themselves, and
    feasible without any one name.

    A column's name stands for both its bounds. Null where it could not be told in time: a claim is
    free to ask for what no solver can answer.
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
    """The rows named, and both bounds of the columns. Raises: InvalidInput for another name."""
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
