"""Validation of instances: four promises, and a repair within the means of a policy."""

import math
from dataclasses import dataclass

from assay_reward.or_debug.dataset.disguise import Disguised
from assay_reward.or_debug.dataset.draft import Unsuitable
from assay_reward.or_debug.episode.scores import optimality_preservation
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.models.iis import Irreducible, irreducible, is_irreducible
from assay_reward.or_debug.models.instance import DropRow, SetColumn, apply
from assay_reward.or_debug.models.model import OptimizationModel
from assay_reward.or_debug.models.solver import Engine, is_feasible, solve

LIMIT_S = 30.0
#: An optimum closer to 0 cannot measure the cost of a repair.
LEAST_OBJECTIVE = 1.0
#: Minimum preserved share of the optimum in a faithful repair.
FAITHFUL = 0.95
#: Two engines' optima may differ by this share.
AGREEMENT = 1e-4


@dataclass(frozen=True, slots=True)
class ValidationFindings:
    """Findings of a validation. `num_rivals` is the sum of `_num_rivals` over all mistakes."""

    original_objective: float
    iis: Irreducible
    num_single_repairs: int
    num_rivals: int


def validated(cell: CellPlan, disguised: Disguised) -> ValidationFindings:
    """Check all promises of an instance of `cell`, and return the findings.

    1. The original has an optimum, not near 0, and no row implied by the bounds.
    2. The broken model is infeasible.
    3. Each mistake is in an irreducible infeasible subset; the stored subset contains a mistake.
    4. The fix leads back to the original. Also, a policy's only means, dropping wrong rows and
       opening wrong columns, lead to the original's optimum or close to it.

    Raises: Unsuitable with the broken promise.
    """
    original = disguised.original()
    if any(_is_idle(original, at) for at in range(len(original.rows))):
        raise Unsuitable("a row follows from the bounds alone")
    if is_feasible(disguised.broken, LIMIT_S):
        raise Unsuitable("the broken model is feasible")
    # The likeliest failures come first, the slowest checks last.
    found = _checked_iis(cell, disguised)
    for name in disguised.root_cause:
        if is_feasible(_alone(disguised, name), LIMIT_S):
            raise Unsuitable("a mistake alone does no harm")
    best = solve(original, LIMIT_S)
    if best.objective is None:
        raise Unsuitable(f"the original is {best.status}")
    if abs(best.objective) < LEAST_OBJECTIVE:
        raise Unsuitable("the optimum is near 0")
    recovered = solve(_opened(disguised), LIMIT_S).objective
    if optimality_preservation(recovered, best.objective) < FAITHFUL:
        raise Unsuitable("taking the mistakes out changes the optimum")
    return ValidationFindings(
        original_objective=best.objective,
        iis=found,
        num_single_repairs=len(_repairs(disguised.broken, found)),
        num_rivals=sum(_num_rivals(disguised, name) for name in disguised.root_cause),
    )


def confirmed(
    original: OptimizationModel, broken: OptimizationModel, objective: float, engine: Engine
) -> None:
    """Confirm with another engine the original's optimum and the broken model's infeasibility.

    Raises: Unsuitable if the engine disagrees.
    """
    best = solve(original, LIMIT_S, engine).objective
    if best is None or abs(best - objective) > AGREEMENT * max(1.0, abs(objective)):
        raise Unsuitable(f"{engine} finds another optimum")
    if solve(broken, LIMIT_S, engine).status != "infeasible":
        raise Unsuitable(f"{engine} finds the broken model feasible")


def _is_idle(model: OptimizationModel, at: int) -> bool:
    """Return True if no point within the bounds violates the row."""
    row = model.rows[at]
    low = high = 0.0
    for name, amount in row.coefficients.items():
        column = model.column(name)
        ends = sorted((amount * column.lower, amount * column.upper))
        low, high = low + ends[0], high + ends[1]
    return low >= row.lower and high <= row.upper


def _alone(disguised: Disguised, name: str) -> OptimizationModel:
    """Return the broken model with a single mistake: others are dropped rows or fixed columns.

    Its rows are a part of the broken model's rows, so an infeasible set here is infeasible there.
    """
    model = disguised.broken
    for other, edit in zip(disguised.root_cause, disguised.fix, strict=True):
        if other != name:
            is_column = isinstance(edit, SetColumn)
            model = apply((edit,), model) if is_column else model.without_row(other)
    return model


def _opened(disguised: Disguised) -> OptimizationModel:
    """Return the broken model without wrong rows, and without upper bounds of wrong columns."""
    model = disguised.broken
    for name, edit in zip(disguised.root_cause, disguised.fix, strict=True):
        if isinstance(edit, SetColumn):
            wide = model.column(name).model_copy(update={"upper": math.inf})
            model = model.with_column(wide)
        else:
            model = apply((DropRow(name=name),), model)
    return model


def _checked_iis(cell: CellPlan, disguised: Disguised) -> Irreducible:
    found = irreducible(disguised.broken, LIMIT_S)
    members = {*found.rows, *(bound.column for bound in found.bounds)}
    if not members & set(disguised.root_cause):
        raise Unsuitable("the irreducible subset has no mistake in it")
    if len(found.rows) not in cell.shape.num_iis_rows:
        raise Unsuitable(f"the irreducible subset has {len(found.rows)} rows")
    if not found.is_proved or not is_irreducible(
        disguised.broken, found.rows, found.bounds, LIMIT_S
    ):
        raise Unsuitable("the subset is not irreducible")
    return found


def _repairs(model: OptimizationModel, found: Irreducible) -> list[str]:
    """Return the rows whose removal alone makes `model` feasible; all of them are in `found`."""
    return [name for name in found.rows if is_feasible(model.without_row(name), LIMIT_S)]


def _num_rivals(disguised: Disguised, name: str) -> int:
    """Return the number of other rows whose removal alone repairs a mistake just as well."""
    model = _alone(disguised, name)
    return len([row for row in _repairs(model, irreducible(model, LIMIT_S)) if row != name])
