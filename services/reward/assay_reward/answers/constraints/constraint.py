"""The base of all kinds of instructions."""

from abc import abstractmethod
from enum import StrEnum
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class CountRelation(StrEnum):
    """The required relation of a count to a number."""

    LESS_THAN = "less than"
    AT_LEAST = "at least"

    def holds(self, count: int, number: int) -> bool:
        return count < number if self is CountRelation.LESS_THAN else count >= number


class Constraint(BaseModel):
    """An instruction; its fields have IFEval's names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    #: Work per character: a `Verifier.reads`.
    reads: ClassVar[float] = 2.0

    @abstractmethod
    def holds(self, text: str) -> bool:
        """Return True if a non-empty text follows the instruction."""
