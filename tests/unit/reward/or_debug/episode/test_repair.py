"""Edits of a model: the direction of a row's move, and impossible edits."""

import math
import random

import pytest

from assay_reward.or_debug.episode.actions import InvalidTurn, parse_action
from assay_reward.or_debug.episode.repair import changed_columns, changed_rows, edit, relaxed
from assay_reward.or_debug.models.model import ModelRow, OptimizationModel
from assay_reward.or_debug.models.solver import is_feasible
from tests.support.or_debug.planted import BROKEN, random_model, random_row

X = {"x1": 1.0}


def after(model: OptimizationModel, *calls: str) -> OptimizationModel:
    for call in calls:
        model, _ = edit(model, BROKEN, parse_action(f"Action: {call}"))
    return model


@pytest.mark.rule("relaxing a row never shrinks the feasible set")
def test_relaxing_a_lower_side_lowers_it() -> None:
    """An earlier system added the amount to every right-hand side; this tightens `>=`."""
    row = relaxed(ModelRow(name="c", coefficients=X, lower=12.0), 5.0)
    assert (row.lower, row.upper) == (7.0, math.inf)


@pytest.mark.parametrize(
    ("lower", "upper", "relaxed_sides"),
    [
        (-math.inf, 10.0, (-math.inf, 12.5)),
        (10.0, math.inf, (7.5, math.inf)),
        (10.0, 10.0, (7.5, 12.5)),
        (1.0, 4.0, (-1.5, 6.5)),
    ],
)
def test_relax_moves_each_side_outwards(
    lower: float, upper: float, relaxed_sides: tuple[float, float]
) -> None:
    row = relaxed(ModelRow(name="c", coefficients=X, lower=lower, upper=upper), 2.5)
    assert (row.lower, row.upper) == relaxed_sides


@pytest.mark.rule("relaxing a row never shrinks the feasible set")
@pytest.mark.parametrize("seed", range(200))
def test_a_relaxed_row_never_shrinks_the_feasible_set(seed: int) -> None:
    """A row still allows each earlier activity, by amounts of any size."""
    rng = random.Random(seed)
    row = random_row(rng, 0, random_model(rng).columns)
    amount = rng.uniform(0.5, 1) * 10 ** rng.randint(-12, 12)
    wider = relaxed(row, amount)
    assert wider.lower <= row.lower
    assert wider.upper >= row.upper
    assert wider.coefficients == row.coefficients


@pytest.mark.parametrize("seed", range(30))
def test_relaxing_keeps_a_feasible_model_feasible(seed: int) -> None:
    """By the solver's own word, over random models of all senses."""
    rng = random.Random(seed)
    model = random_model(rng)
    name = rng.choice(model.rows).name
    amount = rng.uniform(0.01, 10)
    wider, _ = edit(model, model, parse_action(f"Action: RELAX({name}, {amount:.6f})"))
    assert is_feasible(wider, 5.0) or not is_feasible(model, 5.0)


def test_enough_relaxing_repairs_either_side_of_a_conflict() -> None:
    assert is_feasible(after(BROKEN, "RELAX(c3, 2)"), 5.0)
    assert is_feasible(after(BROKEN, "RELAX(c1, 2)"), 5.0)
    assert not is_feasible(after(BROKEN, "RELAX(c3, 1)"), 5.0)


def test_update_rhs_sets_the_one_side_there_is() -> None:
    model = after(BROKEN, "UPDATE_RHS(c3, 3)", "UPDATE_RHS(c1, 11)")
    assert (model.row("c3").lower, model.row("c3").upper) == (3.0, math.inf)
    assert (model.row("c1").lower, model.row("c1").upper) == (-math.inf, 11.0)
    equation = OptimizationModel(
        columns=BROKEN.columns, rows=(ModelRow(name="e", coefficients=X, lower=1.0, upper=1.0),)
    )
    changed = after(equation, "UPDATE_RHS(e, 4)").row("e")
    assert (changed.lower, changed.upper) == (4.0, 4.0)


def test_bounds_may_be_none() -> None:
    column = after(BROKEN, "UPDATE_BOUNDS(x1, -inf, inf)").column("x1")
    assert (column.lower, column.upper) == (-math.inf, math.inf)


def test_reset_undoes_everything() -> None:
    model = after(BROKEN, "DROP(c3)", "UPDATE_BOUNDS(x2, 1, 2)", "RESET()")
    assert model == BROKEN
    assert changed_rows(BROKEN, model) + changed_columns(BROKEN, model) == ()


def test_what_changed_is_what_differs_in_the_end() -> None:
    model = after(
        BROKEN, "DROP(c3)", "RELAX(c1, 1)", "UPDATE_RHS(c1, 10)", "UPDATE_BOUNDS(x1, 0, 9)"
    )
    assert changed_rows(BROKEN, model) == ("c3",)
    assert changed_columns(BROKEN, model) == ("x1",)


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (["DROP(c9)"], "no row is called c9"),
        (["RELAX(x1, 1)"], "x1 is a variable, not a row; UPDATE_BOUNDS"),
        (["UPDATE_BOUNDS(c1, 0, 1)"], "c1 is a row, not a variable; UPDATE_RHS"),
        (["UPDATE_BOUNDS(z, 0, 1)"], "no variable is called z"),
        (["DROP(c3)", "RELAX(c3, 1)"], "c3 has been dropped; RESET"),
        (["UPDATE_RHS(c4, 3)"], "two sides; RELAX moves both, DROP"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_hint(calls: list[str], message: str) -> None:
    with pytest.raises(InvalidTurn, match=message):
        after(BROKEN, *calls)


def test_a_row_without_sides_has_none_to_move() -> None:
    free = ModelRow(name="f", coefficients=X)
    with pytest.raises(InvalidTurn, match="no side to move"):
        relaxed(free, 1.0)
