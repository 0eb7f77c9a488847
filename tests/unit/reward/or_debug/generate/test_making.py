import re
from itertools import pairwise

import pytest

from assay_reward.or_debug.generate import validation
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.generate.making import make
from assay_reward.or_debug.generate.validation import confirmed
from assay_reward.or_debug.models.iis import is_irreducible
from assay_reward.or_debug.models.instance import DropRow, Instance, SetColumn, SetRow
from assay_reward.or_debug.models.solver import is_feasible, solve
from assay_shared.errors import DatasetError
from tests.support.or_debug.made import GRID, NUMBERS, SEED, made

LIMIT_S = 30.0


@pytest.fixture(params=GRID, ids=lambda cell: cell.name)
def cell(request: pytest.FixtureRequest) -> CellPlan:
    assert isinstance(request.param, CellPlan)
    return request.param


@pytest.fixture(params=NUMBERS)
def instance(cell: CellPlan, request: pytest.FixtureRequest) -> Instance:
    return made(cell, request.param)


def test_another_solver_confirms_the_original_and_the_broken_model(instance: Instance) -> None:
    """The original has the stored optimum, restored by the fix; the broken model has none."""
    confirmed(instance.original(), instance.model, instance.original_objective, "scip")


def test_the_stored_subset_is_irreducible_of_the_cells_size_and_has_a_mistake_in_it(
    cell: CellPlan, instance: Instance
) -> None:
    found = instance.iis
    assert found.is_proved
    assert is_irreducible(instance.model, found.rows, found.bounds, LIMIT_S)
    assert len(found.rows) in cell.shape.num_iis_rows
    members = {*found.rows, *(bound.column for bound in found.bounds)}
    assert members & set(instance.root_cause)


def test_every_mistake_counts_and_no_other_row_can_be_blamed_for_it(
    cell: CellPlan, instance: Instance
) -> None:
    assert len(instance.root_cause) == cell.num_mistakes
    assert instance.tags["is_identifiable"] == "yes"
    single = [
        row.name
        for row in instance.model.rows
        if is_feasible(instance.model.without_row(row.name), LIMIT_S)
    ]
    assert len(single) == instance.num_single_repairs
    assert set(single) <= set(instance.root_cause)


def test_what_a_policy_can_do_restores_the_optimum(instance: Instance) -> None:
    model = instance.model
    for name, edit in zip(instance.root_cause, instance.fix, strict=True):
        if isinstance(edit, SetColumn):
            wide = model.column(name).model_copy(update={"upper": float("inf")})
            model = model.with_column(wide)
        else:
            model = model.without_row(name)
    assert solve(model, LIMIT_S).objective == pytest.approx(instance.original_objective, rel=0.05)


def test_each_type_breaks_what_it_says(cell: CellPlan, instance: Instance) -> None:
    for name, edit in zip(instance.root_cause, instance.fix, strict=True):
        if cell.error_type == "D":
            assert isinstance(edit, DropRow)
        elif cell.error_type == "B":
            assert isinstance(edit, SetColumn)
            column = instance.model.column(name)
            assert (column.lower, column.upper) == (0, 1)
            assert edit.column.upper > 1
            assert column.is_integer == edit.column.is_integer == instance.model.is_mip
        else:
            assert isinstance(edit, SetRow)
            wrong, right = instance.model.row(name), edit.row
            sides = (wrong.lower, wrong.upper), (right.lower, right.upper)
            if cell.error_type == "A":
                assert sides[0] == (sides[1][1], sides[1][0]) or {wrong.sense, right.sense} == {
                    "<=",
                    ">=",
                }
                assert wrong.coefficients == right.coefficients
            else:
                assert sides[0] == sides[1]
                assert wrong.coefficients != right.coefficients


def test_names_tell_nothing(instance: Instance) -> None:
    rows = [row.name for row in instance.model.rows]
    columns = [column.name for column in instance.model.columns]
    assert rows == [f"c{at}" for at in range(1, len(rows) + 1)]
    assert columns == [f"x{at}" for at in range(1, len(columns) + 1)]
    assert set(instance.names) == {*rows, *columns}
    assert not [name for name in instance.names.values() if re.fullmatch(r"[cx]\d+", name)]


def test_no_row_is_implied_by_the_bounds_alone(instance: Instance) -> None:
    """Each row of the original forbids something: none is there for show."""
    original = instance.original()
    for row in original.rows:
        ends = [
            sorted((value * original.column(name).lower, value * original.column(name).upper))
            for name, value in row.coefficients.items()
        ]
        assert sum(low for low, _ in ends) < row.lower or sum(high for _, high in ends) > row.upper


def test_difficulty_grows() -> None:
    for kind in "ABCD":
        levels = [cell for cell in GRID if cell.error_type == kind]
        sizes = [
            [
                (len(one.model.rows), len(one.model.columns), len(one.iis.rows))
                for one in (made(cell, number) for number in NUMBERS)
            ]
            for cell in levels
        ]
        for easier, harder in pairwise(sizes):
            assert all(a < b for a, b in zip(max(easier), min(harder), strict=True))


def test_a_model_that_takes_a_solver_too_long_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "LIMIT_S", 1e-9)
    with pytest.raises(DatasetError, match=r"; 2 times: a solver took too long$") as refused:
        make(SEED, GRID[0], 0, max_attempts=2)
    assert refused.value.field == GRID[0].name
