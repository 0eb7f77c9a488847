"""Contracts that hang on one unit: met with it, out of reach without it."""

from random import Random

from assay_reward.or_debug.generate.barrier import BarrierPlace, between
from assay_reward.or_debug.generate.extremes import Direction
from assay_reward.or_debug.generate.plant import Plant, value
from assay_reward.or_debug.models.model import ModelRow


def busy_unit(draw: Random, place: BarrierPlace, best: dict[str, float]) -> str:
    """A unit of `place` that makes at least its share at the best point."""
    share = value(dict.fromkeys(place.units, 1.0), best) / len(place.units)
    return draw.choice([name for name in place.units if best[name] >= share - 1e-6])


def standout(draw: Random) -> float:
    """How much more than the others' a unit's amount counts."""
    return round(draw.uniform(2.5, 5.0), 2)


def row_of(name: str, counts: Direction, side: dict[str, float]) -> ModelRow:
    return ModelRow.model_validate({"name": name, "coefficients": counts} | side)


def side_between(
    draw: Random,
    plant: Plant,
    place: BarrierPlace,
    wrong: Direction,
    reached: float,
    upper: dict[str, float] | None = None,
) -> dict[str, float]:
    """The side of a row that what is `reached` meets, and that `wrong` cannot meet.

    Raises: Unsuitable where the two are too close.
    """
    extreme = plant.extremes.of(wrong, place.maximise, place.levels, upper)
    reached = reached if place.maximise else -reached
    side = between(draw, place.maximise, extreme, reached)
    return {"lower" if place.maximise else "upper": side}
