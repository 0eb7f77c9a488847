"""Extremes of a linear expression over a model, with all rows and without single rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from highspy import HighsModelStatus, ObjSense

from assay_reward.or_debug.dataset.draft import Unsuitable
from assay_reward.or_debug.models.model import OptimizationModel
from assay_reward.or_debug.models.solver import load, relaxed
from assay_shared.errors import SolverFault

#: An expression: the coefficient of each column in it.
Direction = dict[str, float]
LIMIT_S = 60.0
VERDICTS = (HighsModelStatus.kOptimal, HighsModelStatus.kInfeasible)
#: Rows with a smaller dual value do not hold an extreme.
NO_DUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Extreme:
    """The extreme value, and its values after the removal of rows.

    `loosest`: without the single row of largest effect. `ceiling`: without the level (all rows for
    the same limit) of smallest effect. A row with a demand between the two stays infeasible if any
    single other row is removed, but not if a whole level is. So every irreducible subset has a row
    of each level, and no row of a level is in all subsets.
    """

    best: float
    loosest: float
    ceiling: float


class Extremes:
    """Extremes over the relaxation of a model; the solver stays warm between questions."""

    def __init__(self, model: OptimizationModel) -> None:
        self._model = model
        self._columns = {column.name: at for at, column in enumerate(model.columns)}
        self._rows = {row.name: at for at, row in enumerate(model.rows)}
        self._highs = load(relaxed(model), LIMIT_S)

    def of(
        self,
        direction: Direction,
        maximise: bool,
        levels: Sequence[Sequence[str]] = (),
        upper: Mapping[str, float] | None = None,
    ) -> Extreme:
        """Return the extreme of `direction`; `upper` replaces upper bounds of columns.

        Only tight rows with a price are left out in turn, because other rows have no effect.

        Raises: Unsuitable if nothing is feasible within `upper`.
        """
        costs = np.zeros(len(self._columns))
        for name, weight in direction.items():
            costs[self._columns[name]] = weight
        every = np.arange(len(costs), dtype=np.int32)
        self._highs.changeColsCost(len(costs), every, costs)
        sense = ObjSense.kMaximize if maximise else ObjSense.kMinimize
        self._highs.changeObjectiveSense(sense)
        self._set_upper(upper or {})
        try:
            return self._extreme(maximise, levels)
        finally:
            self._set_upper({name: self._model.column(name).upper for name in upper or {}})

    def _extreme(self, maximise: bool, levels: Sequence[Sequence[str]]) -> Extreme:
        best = self._solve()
        duals = self._highs.getSolution().row_dual
        held = [at for at, dual in enumerate(duals) if abs(dual) > NO_DUAL]
        others = [self._without([at]) for at in held]
        tops = [self._without([self._rows[name] for name in level]) for level in levels]
        loosest, least = (max, min) if maximise else (min, max)
        return Extreme(best, loosest([best, *others]), least(tops, default=best))

    def _without(self, places: Sequence[int]) -> float:
        for at in places:
            self._highs.changeRowBounds(at, -math.inf, math.inf)
        try:
            return self._solve()
        finally:
            for at in places:
                row = self._model.rows[at]
                self._highs.changeRowBounds(at, row.lower, row.upper)

    def _set_upper(self, upper: Mapping[str, float]) -> None:
        for name, bound in upper.items():
            lower = self._model.column(name).lower
            self._highs.changeColBounds(self._columns[name], lower, bound)

    def _solve(self) -> float:
        self._highs.run()
        if self._highs.getModelStatus() not in VERDICTS:
            # A warm start can end without a verdict; a cold start then answers the same question.
            self._highs.clearSolver()
            self._highs.run()
        status = self._highs.getModelStatus()
        if status == HighsModelStatus.kInfeasible:
            raise Unsuitable("a column is needed by more than its contracts")
        if status != HighsModelStatus.kOptimal:
            raise SolverFault(f"no extreme: {self._highs.modelStatusToString(status)}")
        return float(self._highs.getInfo().objective_function_value)
