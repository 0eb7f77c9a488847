"""Solving models. A missing verdict of the solver is an error, never a result."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from highspy import Highs, HighsModelStatus, HighsStatus
from pydantic import Field

from assay_reward.or_debug.models.model import OptimizationModel
from assay_shared.errors import ConfigError, SolverFault, TimedOut
from assay_shared.types import Wire

Status = Literal["optimal", "infeasible", "unbounded"]
#: Engines by name; only `highs` is always installed.
Engine = Literal["highs", "scip", "gurobi"]
#: Small enough to compare optima of different engines.
MIP_REL_GAP = 1e-6
#: Ends without a verdict, other than for lack of time.
BROKEN_OFF = (
    HighsModelStatus.kSolveError,
    HighsModelStatus.kPresolveError,
    HighsModelStatus.kPostsolveError,
    HighsModelStatus.kUnknown,
)
ROW_WISE, MINIMISE, MAXIMISE = 2, 1, -1


class SolveOutcome(Wire):
    """The verdict on a model. `objective` and `values` are set only for an optimal model."""

    status: Status
    objective: float | None = None
    #: An optimal point, by column.
    values: dict[str, float] = Field(default={})

    @property
    def is_optimal(self) -> bool:
        return self.status == "optimal"


def solve(model: OptimizationModel, time_limit_s: float, engine: Engine = "highs") -> SolveOutcome:
    """Solve `model` in one thread and return the verdict.

    Raises: TimedOut if the limit was too short, SolverFault for any other end without a verdict
    (both can be retried and are not a score), ConfigError for an unknown engine.
    """
    if engine not in ENGINES:
        raise ConfigError(f"no engine {engine}; there are {', '.join(ENGINES)}", field="engine")
    return ENGINES[engine](model, time_limit_s)


def is_feasible(model: OptimizationModel, time_limit_s: float) -> bool:
    """Return True if some point satisfies all of `model`. Raises as `solve`."""
    return solve(without_objective(model), time_limit_s).is_optimal


def without_objective(model: OptimizationModel) -> OptimizationModel:
    """Return the model without costs: it is optimal if and only if it is feasible."""
    free = tuple(column.model_copy(update={"cost": 0.0}) for column in model.columns)
    return model.replaced(columns=free)


def relaxed(model: OptimizationModel) -> OptimizationModel:
    """Return the model with all columns continuous."""
    columns = tuple(column.model_copy(update={"is_integer": False}) for column in model.columns)
    return model.replaced(columns=columns)


def load(model: OptimizationModel, time_limit_s: float) -> Highs:
    """Return a HiGHS solver with `model` loaded, columns and rows in order, and limits set.

    Raises: SolverFault if HiGHS refuses the model.
    """
    highs = Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", 0),
        ("time_limit", time_limit_s),
        ("iis_time_limit", time_limit_s),
        ("mip_rel_gap", MIP_REL_GAP),
    ):
        highs.setOptionValue(option, value)
    columns = {column.name: at for at, column in enumerate(model.columns)}
    starts = np.cumsum([0, *(len(row.coefficients) for row in model.rows)], dtype=np.int32)
    indices = [columns[name] for row in model.rows for name in row.coefficients]
    values = [value for row in model.rows for value in row.coefficients.values()]
    passed = highs.passModel(
        len(model.columns),
        len(model.rows),
        len(indices),
        ROW_WISE,
        MAXIMISE if model.maximise else MINIMISE,
        0.0,
        np.array([column.cost for column in model.columns], dtype=np.float64),
        np.array([column.lower for column in model.columns], dtype=np.float64),
        np.array([column.upper for column in model.columns], dtype=np.float64),
        np.array([row.lower for row in model.rows], dtype=np.float64),
        np.array([row.upper for row in model.rows], dtype=np.float64),
        starts,
        np.array(indices, dtype=np.int32),
        np.array(values, dtype=np.float64),
        # Always of full length: HiGHS reads past the end of a shorter one.
        np.array([column.is_integer for column in model.columns], dtype=np.int32),
    )
    if passed == HighsStatus.kError:
        raise SolverFault("HiGHS refuses the model")
    return highs


def _solve_highs(model: OptimizationModel, time_limit_s: float) -> SolveOutcome:
    highs = load(model, time_limit_s)
    highs.run()
    if highs.getModelStatus() in BROKEN_OFF:
        # HiGHS 1.15.1 fails in presolve on some integer models; without presolve, it solves them.
        highs = load(model, time_limit_s)
        highs.setOptionValue("presolve", "off")
        highs.run()
    status = highs.getModelStatus()
    if status == HighsModelStatus.kUnboundedOrInfeasible:
        return SolveOutcome(
            status="unbounded" if is_feasible(model, time_limit_s) else "infeasible"
        )
    if status == HighsModelStatus.kInfeasible:
        return SolveOutcome(status="infeasible")
    if status == HighsModelStatus.kUnbounded:
        return SolveOutcome(status="unbounded")
    if status == HighsModelStatus.kTimeLimit:
        raise TimedOut(f"HiGHS needed more than {time_limit_s:g} s")
    if status == HighsModelStatus.kOptimal:
        values = highs.getSolution().col_value
        names = [column.name for column in model.columns]
        objective = float(highs.getInfo().objective_function_value)
        return SolveOutcome(
            status="optimal", objective=objective, values=dict(zip(names, values, strict=True))
        )
    raise SolverFault(f"HiGHS ended with {highs.modelStatusToString(status)}")


def _solve_scip(model: OptimizationModel, time_limit_s: float) -> SolveOutcome:
    try:
        from pyscipopt import Model as Scip
        from pyscipopt import quicksum
    except ModuleNotFoundError as error:
        raise _not_installed("scip", "pip install 'assay-rl[or-check]'") from error
    scip = Scip()
    scip.hideOutput()
    scip.setParam("limits/time", time_limit_s)
    scip.setParam("limits/gap", MIP_REL_GAP)
    variables = {
        column.name: scip.addVar(
            name=column.name,
            vtype="I" if column.is_integer else "C",
            lb=None if math.isinf(column.lower) else column.lower,
            ub=None if math.isinf(column.upper) else column.upper,
            obj=column.cost,
        )
        for column in model.columns
    }
    for row in model.rows:
        terms = quicksum(value * variables[name] for name, value in row.coefficients.items())
        lower, upper = max(row.lower, -scip.infinity()), min(row.upper, scip.infinity())
        scip.addCons((terms >= lower) <= upper, name=row.name)
    (scip.setMaximize if model.maximise else scip.setMinimize)()
    scip.optimize()
    return _outcome_of_scip(
        scip.getStatus(),
        lambda: SolveOutcome(
            status="optimal",
            objective=scip.getObjVal(),
            values={name: scip.getVal(variable) for name, variable in variables.items()},
        ),
        lambda: solve(without_objective(model), time_limit_s, "scip").status,
        time_limit_s,
    )


def _outcome_of_scip(
    status: str, optimum: Callable[[], SolveOutcome], feasible: Callable[[], Status], limit_s: float
) -> SolveOutcome:
    if status in ("optimal", "gaplimit"):
        return optimum()
    if status == "infeasible":
        return SolveOutcome(status="infeasible")
    if status == "unbounded":
        return SolveOutcome(status="unbounded")
    if status == "inforunbd":
        return SolveOutcome(status="unbounded" if feasible() == "optimal" else "infeasible")
    if status == "timelimit":
        raise TimedOut(f"SCIP needed more than {limit_s:g} s")
    raise SolverFault(f"SCIP ended with {status}")


def _solve_gurobi(model: OptimizationModel, time_limit_s: float) -> SolveOutcome:
    try:
        import gurobipy as gurobi
    except ModuleNotFoundError as error:
        raise _not_installed("gurobi", "pip install gurobipy") from error
    with gurobi.Env(params={"OutputFlag": 0}) as environment, gurobi.Model(env=environment) as own:
        own.Params.TimeLimit, own.Params.MIPGap, own.Params.Threads = time_limit_s, MIP_REL_GAP, 1
        own.Params.DualReductions = 0
        variables = {
            column.name: own.addVar(
                column.lower, column.upper, column.cost, "I" if column.is_integer else "C"
            )
            for column in model.columns
        }
        for row in model.rows:
            terms = gurobi.LinExpr(
                [(value, variables[name]) for name, value in row.coefficients.items()]
            )
            if not math.isinf(row.lower):
                own.addConstr(terms >= row.lower)
            if not math.isinf(row.upper):
                own.addConstr(terms <= row.upper)
        own.ModelSense = MAXIMISE if model.maximise else MINIMISE
        own.optimize()
        if own.Status == gurobi.GRB.OPTIMAL:
            values = {name: variable.X for name, variable in variables.items()}
            return SolveOutcome(status="optimal", objective=own.ObjVal, values=values)
        if own.Status == gurobi.GRB.INFEASIBLE:
            return SolveOutcome(status="infeasible")
        if own.Status == gurobi.GRB.UNBOUNDED:
            return SolveOutcome(status="unbounded")
        if own.Status == gurobi.GRB.TIME_LIMIT:
            raise TimedOut(f"Gurobi needed more than {time_limit_s:g} s")
        raise SolverFault(f"Gurobi ended with status {own.Status}")


def _not_installed(engine: str, hint: str) -> ConfigError:
    return ConfigError(f"the engine {engine} is not installed", field="engine", hint=hint)


ENGINES: dict[str, Callable[[OptimizationModel, float], SolveOutcome]] = {
    "highs": _solve_highs,
    "scip": _solve_scip,
    "gurobi": _solve_gurobi,
}
