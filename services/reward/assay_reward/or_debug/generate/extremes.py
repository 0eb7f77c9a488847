"""How far a model lets a linear expression go, with all of its rows and with any one left out."""

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
    """The extreme value, and what becomes of it when rows go.

    `loosest`: without the one row whose loss matters most. `ceiling`: without the level (rows that
    stand for the same limit) whose loss matters least. Of rows that ask for a value between the
    two, every irreducible subset has a row of each level, and none has a row that it cannot do
    without.
    """

    best: float
    loosest: float
    ceiling: float


class Extremes:
    """Extremes over the relaxation of one model; the solver stays warm between questions."""

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
        """The extreme of `direction`; `upper` are bounds in place of the columns' own.

        Without a row that is not tight, or has no price, nothing moves: only the others are tried.

        Raises: Unsuitable where there is none, since nothing is feasible within `upper`.
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
            # A warm start can end nowhere; from nothing the same question has an answer.
            self._highs.clearSolver()
            self._highs.run()
        status = self._highs.getModelStatus()
        if status == HighsModelStatus.kInfeasible:
            raise Unsuitable("a column is needed by more than its contracts")
        if status != HighsModelStatus.kOptimal:
            raise SolverFault(f"no extreme: {self._highs.modelStatusToString(status)}")
        return float(self._highs.getInfo().objective_function_value)
