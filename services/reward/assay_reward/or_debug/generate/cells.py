"""The cells of the grid: error types, difficulties, and the shapes of their models."""

from dataclasses import dataclass
from typing import Literal, get_args

from assay_reward.or_debug.models.instance import DIFFICULTIES, Difficulty

ErrorType = Literal["A", "B", "C", "D"]
ERROR_TYPES: tuple[ErrorType, ...] = get_args(ErrorType)


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Whole numbers from `low` to `high`, both included."""

    low: int
    high: int

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Size of the models of a difficulty, and distance of a mistake from its contradiction.

    A mistake at a stage contradicts limits `depth` rows away, through the stages between. With the
    mistake's own row, an irreducible subset has one row more.
    """

    num_stages: SizeRange
    units_per_stage: SizeRange
    depth: SizeRange
    num_iis_rows: SizeRange
    #: Numbers of correct limits and contracts, of capacities, floors and switches.
    num_limits: int
    num_contracts: int
    num_capacities: int
    num_floors: int
    num_switches: int


SHAPES: dict[Difficulty, ModelShape] = {
    "easy": ModelShape(
        SizeRange(2, 3), SizeRange(2, 3), SizeRange(1, 1), SizeRange(1, 2), 2, 1, 2, 2, 2
    ),
    "medium": ModelShape(
        SizeRange(4, 5), SizeRange(2, 3), SizeRange(2, 4), SizeRange(3, 5), 3, 2, 4, 3, 3
    ),
    "hard": ModelShape(
        SizeRange(7, 8), SizeRange(3, 4), SizeRange(5, 7), SizeRange(6, 12), 5, 4, 6, 6, 5
    ),
}

#: Number of mistakes in an instance.
NUM_MISTAKES: dict[ErrorType, dict[Difficulty, int]] = {
    "A": {"easy": 1, "medium": 2, "hard": 3},
    "B": {"easy": 1, "medium": 2, "hard": 3},
    "C": {"easy": 1, "medium": 2, "hard": 3},
    "D": {"easy": 1, "medium": 1, "hard": 2},
}


@dataclass(frozen=True, slots=True)
class CellPlan:
    """An error type at a difficulty."""

    error_type: ErrorType
    difficulty: Difficulty

    @property
    def name(self) -> str:
        return f"type_{self.error_type}_{self.difficulty}"

    @property
    def shape(self) -> ModelShape:
        return SHAPES[self.difficulty]

    @property
    def num_mistakes(self) -> int:
        return NUM_MISTAKES[self.error_type][self.difficulty]


def cells(
    error_types: tuple[ErrorType, ...] = ERROR_TYPES,
    difficulties: tuple[Difficulty, ...] = DIFFICULTIES,
) -> tuple[CellPlan, ...]:
    """Return the grid, or a part of it."""
    return tuple(CellPlan(kind, difficulty) for kind in error_types for difficulty in difficulties)
