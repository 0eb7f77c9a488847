"""Rows out of reach of a plant, at a given distance from the rows they contradict."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from assay_reward.or_debug.dataset.draft import Unsuitable
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.generate.extremes import Direction, Extreme
from assay_reward.or_debug.generate.plant import Plant, draw_from, limit, link, weights
from assay_reward.or_debug.models.model import ModelRow

#: Minimum room between the extremes without a row and without a level: a share of the former
#: extreme, plus an amount.
LEAST_ROOM = (0.01, 1.0)
#: Maximum room, as a share of the extreme; otherwise a row would stand out by its side.
MOST_ROOM = 0.1
MAX_TRIES = 20
Drawn = TypeVar("Drawn")


@dataclass(frozen=True, slots=True)
class Barrier:
    """A value out of reach for `direction`, even if any single row is removed."""

    direction: Direction
    maximise: bool
    value: float

    def beyond(self, name: str) -> ModelRow:
        """Return the impossible row: a demand for this value."""
        side = {"lower": self.value} if self.maximise else {"upper": self.value}
        return ModelRow.model_validate({"name": name, "coefficients": self.direction} | side)

    def within(self, name: str) -> ModelRow:
        """Return the row satisfied by every point: the same row with the direction reversed."""
        side = {"upper": self.value} if self.maximise else {"lower": self.value}
        return ModelRow.model_validate({"name": name, "coefficients": self.direction} | side)


@dataclass(frozen=True, slots=True)
class BarrierPlace:
    """The units of a stage, seen from supply (`maximise`) or from demand.

    `levels` are the rows between the stage and supply or demand, grouped by limit.
    """

    units: tuple[str, ...]
    maximise: bool
    levels: tuple[tuple[str, ...], ...]


def places(draw: Random, cell: CellPlan, plant: Plant) -> list[BarrierPlace]:
    """Return a place for each mistake, as deep as the cell asks and mostly distinct.

    Supply limits the maximum output of stage k, through k levels. Demand sets its minimum output,
    through a level for each stage from k to the last.
    """
    found: list[BarrierPlace] = []
    while len(found) < cell.num_mistakes:
        depth = min(draw_from(draw, cell.shape.depth), len(plant.stages))
        place = _place(plant, depth, maximise=draw.random() < 0.5)
        if place not in found or draw.random() < 0.2:
            found.append(place)
    return found


def _place(plant: Plant, depth: int, maximise: bool) -> BarrierPlace:
    if maximise:
        links = range(1, depth)
        return BarrierPlace(plant.stages[depth - 1], True, (limit("supply"), *map(link, links)))
    count = len(plant.stages)
    links = range(count - depth + 1, count)
    return BarrierPlace(plant.stages[count - depth], False, (limit("demand"), *map(link, links)))


def between(
    draw: Random,
    maximise: bool,
    extreme: Extreme,
    reached: float = math.inf,
    most: float = math.inf,
) -> float:
    """Return a value out of reach without any single row, and in reach without a whole level.

    The value stays short of `reached`, and passes `extreme.loosest` by at most `most`.

    Raises: Unsuitable if there is too little room.
    """
    sign = 1 if maximise else -1
    room = min((extreme.ceiling - extreme.loosest) * sign, reached - extreme.loosest * sign)
    if room < LEAST_ROOM[0] * abs(extreme.loosest) + LEAST_ROOM[1]:
        raise Unsuitable("too little room for a row beyond what is possible")
    return round(extreme.loosest + sign * draw.uniform(0.3, 0.6) * min(room, most), 1)


def barrier(draw: Random, plant: Plant, place: BarrierPlace) -> Barrier:
    """Return a barrier for a random expression of the units of `place`.

    Raises: Unsuitable if the levels differ too little from single rows.
    """
    direction = weights(draw, place.units, 0.75, 1.25)
    extreme = plant.extremes.of(direction, place.maximise, place.levels)
    most = MOST_ROOM * abs(extreme.loosest)
    return Barrier(direction, place.maximise, between(draw, place.maximise, extreme, most=most))


def persist(draw_one: Callable[[], Drawn]) -> Drawn:
    """Return the first suitable sample of `MAX_TRIES`. Raises: Unsuitable from the last try."""
    for _ in range(MAX_TRIES - 1):
        try:
            return draw_one()
        except Unsuitable:
            continue
    return draw_one()
