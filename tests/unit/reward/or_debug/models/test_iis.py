import pytest

from assay_reward.or_debug.models.iis import Bound, irreducible, is_irreducible
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel
from assay_reward.or_debug.models.solver import is_feasible
from assay_shared.errors import InvalidInput, TimedOut
from tests.support.or_debug.models import at_random, feasible, infeasible, only_integers_fail

LIMIT_S = 10.0


def test_a_conflict_of_several_rows_is_found_without_what_has_no_part_in_it() -> None:
    """A solver's light analysis of single rows finds nothing here."""
    found = irreducible(infeasible(), LIMIT_S)
    assert set(found.rows) == {"c1", "c2", "c3"}
    assert found.bounds == ()
    assert is_irreducible(infeasible(), found.rows, found.bounds, LIMIT_S)


def test_what_fails_for_integers_alone_is_found() -> None:
    found = irreducible(only_integers_fail(), LIMIT_S)
    assert found.rows == ("odd",)
    assert found.is_proved


def test_bounds_are_members() -> None:
    model = OptimizationModel(
        columns=(Column(name="x", upper=3), Column(name="y", upper=3)),
        rows=(ModelRow(name="c", coefficients={"x": 1, "y": 1}, lower=7),),
    )
    found = irreducible(model, LIMIT_S)
    assert found.rows == ("c",)
    assert set(found.bounds) == {
        Bound(column="x", side="upper"),
        Bound(column="y", side="upper"),
    }
    assert found.size == 3


@pytest.mark.parametrize("seed", range(80))
def test_every_member_is_needed(seed: int) -> None:
    model = at_random(seed, is_integer=seed % 2 == 1)
    if is_feasible(model, LIMIT_S):
        with pytest.raises(InvalidInput, match="nothing to explain"):
            irreducible(model, LIMIT_S)
        return
    found = irreducible(model, LIMIT_S)
    assert found.is_proved
    assert is_irreducible(model, found.rows, found.bounds, LIMIT_S)


def test_too_much_and_too_little_are_both_noticed() -> None:
    model = infeasible()
    assert is_irreducible(model, ["c1", "c2", "c3"], [], LIMIT_S)
    assert not is_irreducible(model, ["c1", "c2", "c3", "c4"], [], LIMIT_S)
    assert not is_irreducible(model, ["c1", "c2"], [], LIMIT_S)
    assert not is_irreducible(model, ["c1", "c2", "c3"], [Bound(column="x", side="upper")], LIMIT_S)
    assert not is_irreducible(feasible(), [], [], LIMIT_S)
    with pytest.raises(InvalidInput, match="no row c9"):
        is_irreducible(model, ["c9"], [], LIMIT_S)


def test_no_time_is_a_fault_and_no_finding() -> None:
    with pytest.raises(TimedOut):
        is_irreducible(infeasible(), ["c1", "c2", "c3"], [], 0.0)
