from random import Random

import pytest

from assay_reward.or_debug.generate.barrier import barrier, persist, places
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.generate.plant import build
from assay_reward.or_debug.models.solver import is_feasible, relaxed

LIMIT_S = 10.0


@pytest.mark.parametrize("seed", range(4))
def test_a_barrier_holds_without_any_row_but_not_without_a_level(seed: int) -> None:
    """So no other single row can be blamed, and every explanation runs through each level."""
    draw, cell = Random(seed), CellPlan("D", "medium")
    plant = build(draw, cell.shape, is_mip=False)
    place = places(draw, cell, plant)[0]
    found = persist(lambda: barrier(draw, plant, place))
    broken = plant.model.with_row(found.beyond("wall"))
    assert is_feasible(plant.model.with_row(found.within("wall")), LIMIT_S)
    assert not is_feasible(broken, LIMIT_S)
    for row in plant.model.rows:
        assert not is_feasible(broken.without_row(row.name), LIMIT_S)
    assert len(place.levels) in cell.shape.depth
    for level in place.levels:
        without = broken
        for name in level:
            without = without.without_row(name)
        assert is_feasible(without, LIMIT_S)


@pytest.mark.parametrize("seed", range(6))
def test_a_plants_reference_point_satisfies_it(seed: int) -> None:
    plant = build(Random(seed), CellPlan("A", "hard").shape, is_mip=True)
    for row in plant.model.rows:
        activity = sum(value * plant.reference[name] for name, value in row.coefficients.items())
        assert row.lower - 0.06 <= activity <= row.upper + 0.06
    assert is_feasible(relaxed(plant.model), LIMIT_S)
