"""Edits of a model by actions. A relaxed row never shrinks the feasible set."""

import math
from collections.abc import Callable

from assay_reward.or_debug.episode.actions import Action, ActionName, InvalidTurn
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel


def find_row(model: OptimizationModel, start: OptimizationModel, name: str) -> ModelRow:
    """Return the row in its current form.

    Raises:
        InvalidTurn: no row has this name, or it was dropped since `start`.
    """
    row = model.rows_by_name.get(name)
    if row is not None:
        return row
    if name in start.rows_by_name:
        raise InvalidTurn(f"row {name} has been dropped; RESET() undoes all edits")
    if name in start.columns_by_name:
        raise InvalidTurn(f"{name} is a variable, not a row; UPDATE_BOUNDS changes variables")
    raise InvalidTurn(f"no row is called {name:.60}")


def find_column(model: OptimizationModel, name: str) -> Column:
    """Return the variable in its current form. Raises: InvalidTurn for an unknown name."""
    column = model.columns_by_name.get(name)
    if column is not None:
        return column
    if name in model.rows_by_name:
        raise InvalidTurn(f"{name} is a row, not a variable; UPDATE_RHS changes rows")
    raise InvalidTurn(f"no variable is called {name:.60}")


def edit(
    model: OptimizationModel, start: OptimizationModel, action: Action
) -> tuple[OptimizationModel, str]:
    """Return the model after the action, and a text about the change for the policy.

    Raises:
        InvalidTurn: the action cannot be done; nothing changes.
    """
    return EDITS[action.name](model, start, action)


def relaxed(row: ModelRow, amount: float) -> ModelRow:
    """Return the row with its sides moved outwards; every satisfying point still satisfies it.

    Raises:
        InvalidTurn: the row has no side.
    """
    if row.sense == "free":
        raise InvalidTurn(f"{row.name} has no side to move")
    return row.model_copy(update={"lower": row.lower - amount, "upper": row.upper + amount})


def with_right_hand_side(row: ModelRow, value: float) -> ModelRow:
    """Return the row with a new right-hand side. Raises: InvalidTurn for a free row or a range."""
    if row.sense == "free":
        raise InvalidTurn(f"{row.name} has no right-hand side")
    if row.sense == "range":
        raise InvalidTurn(f"{row.name} has two sides; RELAX moves both, DROP removes the row")
    return row.model_copy(
        update={
            "lower": row.lower if math.isinf(row.lower) else value,
            "upper": row.upper if math.isinf(row.upper) else value,
        }
    )


def _relax(
    model: OptimizationModel, start: OptimizationModel, action: Action
) -> tuple[OptimizationModel, str]:
    row = find_row(model, start, action.target)
    return _replace(model, row, relaxed(row, action.values[0]))


def _update_rhs(
    model: OptimizationModel, start: OptimizationModel, action: Action
) -> tuple[OptimizationModel, str]:
    row = find_row(model, start, action.target)
    return _replace(model, row, with_right_hand_side(row, action.values[0]))


def _replace(
    model: OptimizationModel, old: ModelRow, new: ModelRow
) -> tuple[OptimizationModel, str]:
    return model.with_row(new), f"Was {shown(model, old)}\nNow {shown(model, new)}"


def _drop(
    model: OptimizationModel, start: OptimizationModel, action: Action
) -> tuple[OptimizationModel, str]:
    row = find_row(model, start, action.target)
    return model.without_row(row.name), f"Dropped {shown(model, row)}"


def _update_bounds(
    model: OptimizationModel, start: OptimizationModel, action: Action
) -> tuple[OptimizationModel, str]:
    old = find_column(model, action.target)
    lower, upper = action.values
    new = old.model_copy(update={"lower": lower, "upper": upper})
    return model.with_column(new), f"Was {old.text()}\nNow {new.text()}"


def _reset(
    model: OptimizationModel, start: OptimizationModel, action: Action
) -> tuple[OptimizationModel, str]:
    return start, "All edits are undone."


EDITS: dict[
    ActionName,
    Callable[[OptimizationModel, OptimizationModel, Action], tuple[OptimizationModel, str]],
] = {
    ActionName.RELAX: _relax,
    ActionName.DROP: _drop,
    ActionName.UPDATE_RHS: _update_rhs,
    ActionName.UPDATE_BOUNDS: _update_bounds,
    ActionName.RESET: _reset,
}

_ROW_LENGTH = 600


def shown(model: OptimizationModel, row: ModelRow) -> str:
    """Return the row as in the model's text; of a very long row, only the two ends.

    Terms stand in the order of the columns, because the order of their creation could reveal a
    changed coefficient.
    """
    text = row.text({column.name: at for at, column in enumerate(model.columns)})
    if len(text) <= _ROW_LENGTH:
        return text
    half = _ROW_LENGTH // 2
    return f"{text[:half]} ... {text[-half:]}"


def changed_rows(start: OptimizationModel, model: OptimizationModel) -> tuple[str, ...]:
    """Return the names of rows of `start`, dropped or with other sides in `model`."""
    if model.rows is start.rows:
        return ()
    return tuple(r.name for r in start.rows if not _same_sides(r, model.rows_by_name.get(r.name)))


def changed_columns(start: OptimizationModel, model: OptimizationModel) -> tuple[str, ...]:
    """Return the names of variables with other bounds in `model`."""
    if model.columns is start.columns:
        return ()
    now = model.columns_by_name
    return tuple(c.name for c in start.columns if not _same_sides(c, now.get(c.name)))


def _same_sides(old: ModelRow | Column, new: ModelRow | Column | None) -> bool:
    return new is not None and (old.lower, old.upper) == (new.lower, new.upper)
