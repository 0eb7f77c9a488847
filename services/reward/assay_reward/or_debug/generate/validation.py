"""An instance has to prove that it is one: four promises, and that a policy can keep its side."""

import math
from dataclasses import dataclass

from assay_reward.or_debug.dataset.disguise import Disguised
from assay_reward.or_debug.dataset.draft import Unsuitable
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.models.iis import Irreducible, irreducible, is_irreducible
from assay_reward.or_debug.models.instance import DropRow, SetColumn, apply
from assay_reward.or_debug.models.model import OptimizationModel
from assay_reward.or_debug.models.solver import Engine, is_feasible, solve

LIMIT_S = 30.0
#: An optimum closer to nothing is no measure of what a repair costs.
LEAST_OBJECTIVE = 1.0
#: What counts as a faithful repair: the optimum, to this share.
FAITHFUL = 0.95
#: Two engines' optima may differ by this share.
AGREEMENT = 1e-4


@dataclass(frozen=True, slots=True)
class ValidationFindings:
    """What validation found out. `num_rivals`: see `rivals`."""

    original_objective: float
    iis: Irreducible
    num_single_repairs: int
    num_rivals: int


def validated(cell: CellPlan, disguised: Disguised) -> ValidationFindings:
    """Check everything that an instance of `cell` promises.

    1. The original has an optimum, not at nothing, and no row that the bounds imply.
    2. The broken model is infeasible.
    3. Each mistake is in an irreducible infeasible subset, and the one that is stored has one.
    4. The fix leads back to the original. Also, taking out or opening up what is at fault, which
       is all that a policy can do, leads to its optimum or close to it.

    Raises: Unsuitable with the promise that is not kept.
    """
    original = disguised.original()
    if any(_is_idle(original, at) for at in range(len(original.rows))):
        raise Unsuitable("a row follows from the bounds alone")
    if is_feasible(disguised.broken, LIMIT_S):
        raise Unsuitable("the broken model is feasible")
    # What is likeliest to fail comes first, and what takes longest last.
    found = _checked_iis(cell, disguised)
    for name in disguised.root_cause:
        if is_feasible(_alone(disguised, name), LIMIT_S):
            raise Unsuitable("a mistake does no harm by itself")
    best = solve(original, LIMIT_S)
    if best.objective is None:
        raise Unsuitable(f"the original is {best.status}")
    if abs(best.objective) < LEAST_OBJECTIVE:
        raise Unsuitable("the optimum is at nothing")
    if preserved(solve(_opened(disguised), LIMIT_S).objective, best.objective) < FAITHFUL:
        raise Unsuitable("taking the mistakes out changes the optimum")
    return ValidationFindings(
        original_objective=best.objective,
        iis=found,
        num_single_repairs=len(_repairs(disguised.broken, found)),
        num_rivals=sum(_num_rivals(disguised, name) for name in disguised.root_cause),
    )


def preserved(recovered: float | None, original: float) -> float:
    """Optimality preservation, in [0, 1]; 0 where there is no optimum."""
    if recovered is None:
        return 0.0
    return max(0.0, 1 - abs(recovered - original) / max(abs(original), 1e-9))


def confirmed(
    original: OptimizationModel, broken: OptimizationModel, objective: float, engine: Engine
) -> None:
    """Ask another engine whether the original has this optimum and the broken model has none.

    Raises: Unsuitable where it says otherwise.
    """
    best = solve(original, LIMIT_S, engine).objective
    if best is None or abs(best - objective) > AGREEMENT * max(1.0, abs(objective)):
        raise Unsuitable(f"{engine} finds another optimum")
    if solve(broken, LIMIT_S, engine).status != "infeasible":
        raise Unsuitable(f"{engine} finds the broken model feasible")


def _is_idle(model: OptimizationModel, at: int) -> bool:
    """Whether no point within the bounds violates the row."""
    row = model.rows[at]
    low = high = 0.0
    for name, amount in row.coefficients.items():
        column = model.column(name)
        ends = sorted((amount * column.lower, amount * column.upper))
        low, high = low + ends[0], high + ends[1]
    return low >= row.lower and high <= row.upper


def _alone(disguised: Disguised, name: str) -> OptimizationModel:
    """The broken model with one mistake: other wrong rows are out, other wrong columns are right.

    Its rows are a part of the broken model's, so that what is infeasible here is so there.
    """
    model = disguised.broken
    for other, edit in zip(disguised.root_cause, disguised.fix, strict=True):
        if other != name:
            is_column = isinstance(edit, SetColumn)
            model = apply((edit,), model) if is_column else model.without_row(other)
    return model


def _opened(disguised: Disguised) -> OptimizationModel:
    """The broken model without the wrong rows, and without upper bounds of the wrong columns."""
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
    """The rows of which each alone, taken out, makes `model` feasible: all are in `found`."""
    return [name for name in found.rows if is_feasible(model.without_row(name), LIMIT_S)]


def _num_rivals(disguised: Disguised, name: str) -> int:
    """How many other rows could be blamed for one mistake as well as what is at fault."""
    model = _alone(disguised, name)
    return len([row for row in _repairs(model, irreducible(model, LIMIT_S)) if row != name])
