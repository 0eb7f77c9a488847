"""Type B: columns with the wrong domain: a quantity declared as a yes or no, or as a share.

An integer becomes a binary; in a model without integers, an amount becomes a share from 0 to 1.
Two contracts need more of the column, each independently of the other.
"""

from functools import partial
from random import Random

from assay_reward.or_debug.dataset.draft import Draft, Unsuitable, with_wrong_columns
from assay_reward.or_debug.generate.barrier import BarrierPlace, persist, places
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.generate.contract import busy_unit, row_of, side_between, standout
from assay_reward.or_debug.generate.plant import Plant, value, weights
from assay_reward.or_debug.models.model import ModelRow, OptimizationModel

CONTRACTS_PER_COLUMN = 2


def sabotage(draw: Random, cell: CellPlan, plant: Plant) -> Draft:
    """Return a draft with wrong domains. Raises: Unsuitable."""
    best, original, wrong = plant.best_point(), plant.model, []
    number = cell.shape.num_contracts
    for place in places(draw, cell, plant):
        unit, rows = persist(partial(_pair, draw, plant, place, best, number))
        number += CONTRACTS_PER_COLUMN
        original = _with(original, rows)
        column = original.column(unit).model_copy(update={"is_integer": plant.model.is_mip})
        original = original.with_column(column)
        wrong.append(column.model_copy(update={"upper": 1.0}))
    if len({column.name for column in wrong}) < len(wrong):
        raise Unsuitable("one column twice")
    return with_wrong_columns(original, wrong)


def _with(model: OptimizationModel, rows: list[ModelRow]) -> OptimizationModel:
    for row in rows:
        model = model.with_row(row)
    return model


def _pair(
    draw: Random, plant: Plant, place: BarrierPlace, best: dict[str, float], number: int
) -> tuple[str, list[ModelRow]]:
    """Return a unit, and rows met at the plant's best point but not with a share of the unit."""
    unit, rows = busy_unit(draw, place, best), []
    for at in range(1, CONTRACTS_PER_COLUMN + 1):
        counts = weights(draw, place.units, 0.6, 1.3)
        counts[unit] = standout(draw) * (1 if place.maximise else -1)
        reached = value(counts, best)
        side = side_between(draw, plant, place, counts, reached, upper={unit: 1.0})
        rows.append(row_of(f"contract_{number + at}", counts, side))
    return unit, rows
