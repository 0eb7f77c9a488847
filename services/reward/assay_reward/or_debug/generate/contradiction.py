"""Type D: foreign rows in contradiction with the model.

Several chains of rows exclude the demand of a foreign row at once, because every limit of a plant
exists twice: removing a row of one chain leaves the other chains.
"""

from functools import partial
from random import Random

from assay_reward.or_debug.dataset.draft import Draft, with_added_rows
from assay_reward.or_debug.generate.barrier import barrier, persist, places
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.generate.plant import Plant


def sabotage(draw: Random, cell: CellPlan, plant: Plant) -> Draft:
    """Return a draft with foreign rows. Raises: Unsuitable."""
    barriers = [
        persist(partial(barrier, draw, plant, place)) for place in places(draw, cell, plant)
    ]
    first = cell.shape.num_limits + 1
    added = [found.beyond(f"limit_{first + at}") for at, found in enumerate(barriers)]
    return with_added_rows(plant.model, added)
