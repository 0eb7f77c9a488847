"""What each cell of the grid means."""

from dataclasses import dataclass
from typing import Literal, get_args

from assay_reward.or_debug.instance import DIFFICULTIES, Difficulty

ErrorType = Literal["A", "B", "C", "D"]
ERROR_TYPES: tuple[ErrorType, ...] = get_args(ErrorType)


@dataclass(frozen=True, slots=True)
class Span:
    """Whole numbers from `low` to `high`, both included."""

    low: int
    high: int

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the models of a difficulty are, and how far a mistake is from what it contradicts.

    A mistake at a stage contradicts limits that are `depth` rows away, through the stages between;
    with the mistake's own row, an irreducible subset has one row more.
    """

    num_stages: Span
    units_per_stage: Span
    depth: Span
    num_iis_rows: Span
    #: Of each: limits and contracts that are right, capacities, floors, switches.
    num_limits: int
    num_contracts: int
    num_capacities: int
    num_floors: int
    num_switches: int


SHAPES: dict[Difficulty, Shape] = {
    "easy": Shape(Span(2, 3), Span(2, 3), Span(1, 1), Span(1, 2), 2, 1, 2, 2, 2),
    "medium": Shape(Span(4, 5), Span(2, 3), Span(2, 4), Span(3, 5), 3, 2, 4, 3, 3),
    "hard": Shape(Span(7, 8), Span(3, 4), Span(5, 7), Span(6, 12), 5, 4, 6, 6, 5),
}

#: How many mistakes are made at once.
NUM_MISTAKES: dict[ErrorType, dict[Difficulty, int]] = {
    "A": {"easy": 1, "medium": 2, "hard": 3},
    "B": {"easy": 1, "medium": 2, "hard": 3},
    "C": {"easy": 1, "medium": 2, "hard": 3},
    "D": {"easy": 1, "medium": 1, "hard": 2},
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One error type at one difficulty."""

    error_type: ErrorType
    difficulty: Difficulty

    @property
    def name(self) -> str:
        return f"type_{self.error_type}_{self.difficulty}"

    @property
    def shape(self) -> Shape:
        return SHAPES[self.difficulty]

    @property
    def num_mistakes(self) -> int:
        return NUM_MISTAKES[self.error_type][self.difficulty]


def cells(
    error_types: tuple[ErrorType, ...] = ERROR_TYPES,
    difficulties: tuple[Difficulty, ...] = DIFFICULTIES,
) -> tuple[Cell, ...]:
    """The grid, or a part of it."""
    return tuple(Cell(kind, difficulty) for kind in error_types for difficulty in difficulties)
