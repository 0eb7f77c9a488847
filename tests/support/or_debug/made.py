"""Instances of every cell, made once for all tests of them."""

from functools import cache

from assay_reward.or_debug.generate.cells import CellPlan, cells
from assay_reward.or_debug.generate.making import make
from assay_reward.or_debug.models.instance import Instance

GRID = cells()
#: One without integers, one with.
NUMBERS = (0, 7)
SEED = 4


@cache
def made(cell: CellPlan, number: int) -> Instance:
    return make(SEED, cell, number).instance
