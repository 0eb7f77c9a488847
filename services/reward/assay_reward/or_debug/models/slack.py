"""Activity and slack of a row at a meaningful point, in an infeasible model too."""

import math

from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel, number
from assay_reward.or_debug.models.solver import SolveOutcome, solve


def least_violation(model: OptimizationModel, time_limit_s: float) -> dict[str, float] | None:
    """Return a point within all bounds with the least sum of row violations, by column.

    Return None if bounds and integrality alone exclude every point. Raises as `solve`.
    """
    outcome = solve(_elastic(model), time_limit_s)
    return outcome.values if outcome.is_optimal else None


def _elastic(model: OptimizationModel) -> OptimizationModel:
    """Return the model with soft row sides, at a cost of 1 per unit and no other costs."""
    columns = [column.model_copy(update={"cost": 0.0}) for column in model.columns]
    rows = []
    for row in model.rows:
        coefficients = dict(row.coefficients)
        for side, sign in ((row.lower, 1.0), (row.upper, -1.0)):
            if math.isfinite(side):
                name = f"{len(columns)} past {row.name}"  # not a word, so no column has it
                columns.append(Column.model_construct(name=name, cost=1.0))
                coefficients[name] = sign
        rows.append(row.model_copy(update={"coefficients": coefficients}))
    return OptimizationModel.model_construct(
        columns=tuple(columns), rows=tuple(rows), maximise=False
    )


def activity(row: ModelRow, values: dict[str, float]) -> float:
    return math.fsum(value * values[name] for name, value in row.coefficients.items())


def slack_text(
    model: OptimizationModel, outcome: SolveOutcome, row: ModelRow, time_limit_s: float
) -> str:
    """Return the text of CHECK_SLACK; negative slack is violation. Raises as `solve`."""
    if outcome.is_optimal:
        values, where = outcome.values, "at the optimal point"
    else:
        found = least_violation(model, time_limit_s)
        if found is None:
            return "No point lies within all bounds and has integers where they must be."
        values = found
        feasible = outcome.status == "unbounded"
        where = "at a feasible point" if feasible else "at the point of least violation"
    at = activity(row, values)
    slacks = [
        f"{number(_rounded(slack))} to its {side} side"
        for side, slack in (("lower", at - row.lower), ("upper", row.upper - at))
        if math.isfinite(slack)
    ]
    told = f"slack {' and '.join(slacks)}" if slacks else "no side"
    return f"{row.name} has activity {number(_rounded(at))} and {told}, {where}."


def _rounded(value: float) -> float:
    """Round away the solver's last digits, because they mean nothing."""
    return round(value, 6)
