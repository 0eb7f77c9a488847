"""Irreducible infeasible subsets of a model: minimal sets of contradictory rows and bounds."""

import math
import time
from collections.abc import Iterable
from typing import Literal

from highspy import HighsStatus

from assay_reward.or_debug.models.model import Column, Name, OptimizationModel
from assay_reward.or_debug.models.solver import is_feasible, load, relaxed, without_objective
from assay_shared.errors import InvalidInput, TimedOut
from assay_shared.types import Wire

#: Start from an LP's infeasibility proof, then reduce until every member is necessary.
FROM_LP_IRREDUCIBLE = 2 + 4
#: `HighsIis.status_` of a subset proved irreducible. Any other value proves nothing.
IRREDUCIBLE = 3
#: `HighsIis.col_bound_`: the sides of a column in the subset.
LOWER, UPPER, BOXED = 2, 3, 4
#: Limit per bound, because an integer column without bounds may keep a solver busy for ever.
BOUND_LIMIT_S = 1.0


class Bound(Wire):
    """One side of a column."""

    column: Name
    side: Literal["lower", "upper"]


class Irreducible(Wire):
    """An infeasible set of rows and bounds; every proper subset is feasible.

    A row is a member with all its sides. Columns stay integer throughout. If `is_proved` is false,
    this holds for the rows, but some bounds may be unnecessary: the solver ran out of time.
    """

    rows: tuple[Name, ...]
    bounds: tuple[Bound, ...] = ()
    is_proved: bool = True

    @property
    def size(self) -> int:
        return len(self.rows) + len(self.bounds)


def irreducible(model: OptimizationModel, time_limit_s: float) -> Irreducible:
    """Return an irreducible infeasible subset of `model`; others may exist.

    HiGHS finds it, if it can prove it, for an LP or an integer model with an infeasible relaxation.
    A subset from a relaxation, or with equations or ranges (HiGHS takes single sides of them), is
    then reduced member by member. So is the whole of an integer model with a feasible relaxation.

    Raises: InvalidInput for a feasible model; TimedOut and SolverFault as `solver.solve`.
    """
    deadline = time.monotonic() + time_limit_s
    linear = without_objective(relaxed(model))
    if is_feasible(linear, time_limit_s):
        if not model.is_mip or is_feasible(model, _left(deadline)):
            raise InvalidInput("the model is feasible: there is nothing to explain", field="model")
        return _reduced(model, _everything(model), deadline)
    found = _of_highs(linear, _left(deadline))
    if found is None:
        return _reduced(model, _everything(model), deadline)
    one_sided = all(model.row(name).sense in ("<=", ">=") for name in found.rows)
    return found if one_sided and not model.is_mip else _reduced(model, found, deadline)


def is_irreducible(
    model: OptimizationModel,
    rows: Iterable[str],
    bounds: Iterable[Bound],
    time_limit_s: float = 10.0,
) -> bool:
    """Return True if `rows` and `bounds` are infeasible, but feasible without any single member.

    Raises: InvalidInput for an unknown row or column; TimedOut and SolverFault.
    """
    deadline = time.monotonic() + time_limit_s
    members = Irreducible(rows=tuple(rows), bounds=tuple(bounds))
    if is_feasible(part(model, members), _left(deadline)):
        return False
    smaller = [_without(members, row=row) for row in members.rows]
    smaller += [_without(members, bound=bound) for bound in members.bounds]
    return all(is_feasible(part(model, rest), _left(deadline)) for rest in smaller)


def part(model: OptimizationModel, members: Irreducible) -> OptimizationModel:
    """Return `model` with only these rows and bounds, without costs; columns stay integer.

    Raises: InvalidInput for an unknown row or column.
    """
    sides = {(bound.column, bound.side) for bound in members.bounds}
    rows = tuple(model.row(name) for name in members.rows)
    for column, _ in sides:
        model.column(column)
    used = {name for row in rows for name in row.coefficients} | {column for column, _ in sides}
    # A model needs a column, and a column without bounds excludes nothing.
    used = used or {model.columns[0].name}
    columns = tuple(
        column.model_copy(
            update={
                "cost": 0.0,
                "lower": column.lower if (column.name, "lower") in sides else -math.inf,
                "upper": column.upper if (column.name, "upper") in sides else math.inf,
            }
        )
        for column in model.columns
        if column.name in used
    )
    return model.replaced(columns=columns, rows=rows)


def _of_highs(model: OptimizationModel, time_limit_s: float) -> Irreducible | None:
    """Return the irreducible subset proved by HiGHS for an infeasible LP, or None without proof."""
    highs = load(model, time_limit_s)
    highs.setOptionValue("iis_strategy", FROM_LP_IRREDUCIBLE)
    status, found = highs.getIis()
    if status != HighsStatus.kOk or not found.valid_ or found.status_ != IRREDUCIBLE:
        return None
    bounds: list[Bound] = []
    for at, side in zip(found.col_index_, found.col_bound_, strict=True):
        name = model.columns[at].name
        if side in (LOWER, BOXED):
            bounds.append(Bound(column=name, side="lower"))
        if side in (UPPER, BOXED):
            bounds.append(Bound(column=name, side="upper"))
    rows = sorted(found.row_index_)
    return Irreducible(rows=tuple(model.rows[at].name for at in rows), bounds=tuple(bounds))


def _everything(model: OptimizationModel) -> Irreducible:
    return Irreducible(rows=tuple(row.name for row in model.rows), bounds=_bounds(model.columns))


def _bounds(columns: Iterable[Column]) -> tuple[Bound, ...]:
    found = []
    for column in columns:
        if not math.isinf(column.lower):
            found.append(Bound(column=column.name, side="lower"))
        if not math.isinf(column.upper):
            found.append(Bound(column=column.name, side="upper"))
    return tuple(found)


def _reduced(model: OptimizationModel, members: Irreducible, deadline: float) -> Irreducible:
    """Drop unnecessary members in turn: the deletion filter (Chinneck and Dravnieks 1991)."""
    for row in members.rows:
        rest = _without(members, row=row)
        if not is_feasible(part(model, rest), _left(deadline)):
            members = rest
    used = {name for row in members.rows for name in model.row(row).coefficients}
    if members.rows:
        kept = tuple(bound for bound in members.bounds if bound.column in used)
        members = members.model_copy(update={"bounds": kept})
    for bound in members.bounds:
        rest = _without(members, bound=bound)
        try:
            is_needed = is_feasible(part(model, rest), min(BOUND_LIMIT_S, _left(deadline)))
        except TimedOut:
            members = members.model_copy(update={"is_proved": False})
            continue
        members = members if is_needed else rest
    return members


def _without(members: Irreducible, row: str = "", bound: Bound | None = None) -> Irreducible:
    return members.model_copy(
        update={
            "rows": tuple(name for name in members.rows if name != row),
            "bounds": tuple(other for other in members.bounds if other != bound),
        }
    )


def _left(deadline: float) -> float:
    """Return the seconds until `deadline`. Raises: TimedOut if there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimedOut("no time left to find an irreducible infeasible subset")
    return left
