"""Contracts that depend on a single unit: the plant can meet them only with this unit."""

from random import Random

from assay_reward.or_debug.generate.barrier import BarrierPlace, between
from assay_reward.or_debug.generate.extremes import Direction
from assay_reward.or_debug.generate.plant import Plant, value
from assay_reward.or_debug.models.model import ModelRow


def busy_unit(draw: Random, place: BarrierPlace, best: dict[str, float]) -> str:
    """Return a random unit of `place` with at least its share of output at the best point."""
    share = value(dict.fromkeys(place.units, 1.0), best) / len(place.units)
    return draw.choice([name for name in place.units if best[name] >= share - 1e-6])


def standout(draw: Random) -> float:
    """Return a random coefficient, far larger than the coefficients of the other units."""
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
    """Return a side of a row, met by the value `reached` and out of reach for `wrong`.

    Raises: Unsuitable if the two are too close.
    """
    extreme = plant.extremes.of(wrong, place.maximise, place.levels, upper)
    reached = reached if place.maximise else -reached
    side = between(draw, place.maximise, extreme, reached)
    return {"lower" if place.maximise else "upper": side}
