"""Type C: rows with a wrong coefficient: left out, with the wrong sign, or in the wrong unit."""

from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Literal

from assay_reward.or_debug.dataset.draft import Draft, Unsuitable, with_wrong_rows
from assay_reward.or_debug.generate.barrier import BarrierPlace, persist, places
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.generate.contract import busy_unit, row_of, side_between, standout
from assay_reward.or_debug.generate.extremes import Direction
from assay_reward.or_debug.generate.plant import Plant, value, weights
from assay_reward.or_debug.models.model import ModelRow

Mistake = Literal["left_out", "sign", "unit"]
MISTAKES: tuple[Mistake, ...] = ("left_out", "sign", "unit")


@dataclass(frozen=True, slots=True)
class Contract:
    """The right form and the wrong form of a row."""

    right: ModelRow
    wrong: ModelRow


def sabotage(draw: Random, cell: CellPlan, plant: Plant) -> Draft:
    """Return a draft with wrong coefficients. Raises: Unsuitable."""
    best, first = plant.best_point(), cell.shape.num_contracts + 1
    contracts = [
        persist(partial(_contract, draw, plant, place, best, f"contract_{first + at}"))
        for at, place in enumerate(places(draw, cell, plant))
    ]
    original = plant.model
    for contract in contracts:
        original = original.with_row(contract.right)
    return with_wrong_rows(original, [contract.wrong for contract in contracts])


def _contract(
    draw: Random, plant: Plant, place: BarrierPlace, best: dict[str, float], name: str
) -> Contract:
    """Return a row met at the plant's best point, and out of reach with the wrong coefficient."""
    unit, mistake = busy_unit(draw, place, best), draw.choice(MISTAKES)
    right = weights(draw, place.units, 0.6, 1.3)
    right[unit] = _telling(draw, place.maximise, mistake)
    wrong = _spoiled(right, unit, mistake, place.maximise)
    if len(wrong) < 2:
        raise Unsuitable("too few terms are left")
    side = side_between(draw, plant, place, wrong, reached=value(right, best))
    return Contract(row_of(name, right, side), row_of(name, wrong, side))


def _telling(draw: Random, maximise: bool, mistake: Mistake) -> float:
    """Return a coefficient of strong effect: without it, the row is much harder to meet."""
    if maximise:
        return standout(draw)
    if mistake == "unit":
        return round(0.15 * draw.uniform(0.6, 1.0), 2)
    return -standout(draw)


def _spoiled(right: Direction, unit: str, mistake: Mistake, maximise: bool) -> Direction:
    if mistake == "left_out":
        return {name: weight for name, weight in right.items() if name != unit}
    factor = -1.0 if mistake == "sign" else 0.1 if maximise else 10.0
    return right | {unit: round(right[unit] * factor, 3)}
