"""Type A: rows with a reversed direction, `<=` for `>=`.

A reversed row makes a model infeasible exactly if the right row follows from the other rows with
room to spare, like a planner's check of a total. The right row is such a check.
"""

from functools import partial
from random import Random

from assay_reward.or_debug.dataset.draft import Draft, with_wrong_rows
from assay_reward.or_debug.generate.barrier import barrier, persist, places
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.generate.plant import Plant


def sabotage(draw: Random, cell: CellPlan, plant: Plant) -> Draft:
    """Return a draft with reversed rows. Raises: Unsuitable."""
    barriers = [
        persist(partial(barrier, draw, plant, place)) for place in places(draw, cell, plant)
    ]
    first = cell.shape.num_limits + 1
    names = [f"limit_{first + at}" for at in range(len(barriers))]
    original = plant.model
    for name, found in zip(names, barriers, strict=True):
        original = original.with_row(found.within(name))
    wrong = [found.beyond(name) for name, found in zip(names, barriers, strict=True)]
    return with_wrong_rows(original, wrong)
