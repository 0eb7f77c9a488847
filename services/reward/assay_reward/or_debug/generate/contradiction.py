"""Type D: rows that do not belong to the model and contradict it.

What they ask for is out of reach by several chains of rows at once, since every limit of a plant
stands twice: taking out one row of a chain leaves the others.
"""

from functools import partial
from random import Random

from assay_reward.or_debug.dataset.draft import Draft, with_added_rows
from assay_reward.or_debug.generate.barrier import barrier, persist, places
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.generate.plant import Plant


def sabotage(draw: Random, cell: CellPlan, plant: Plant) -> Draft:
    """Raises: Unsuitable."""
    barriers = [
        persist(partial(barrier, draw, plant, place)) for place in places(draw, cell, plant)
    ]
    first = cell.shape.num_limits + 1
    added = [found.beyond(f"limit_{first + at}") for at, found in enumerate(barriers)]
    return with_added_rows(plant.model, added)
