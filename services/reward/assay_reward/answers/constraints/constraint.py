"""What every kind of instruction has."""

from abc import abstractmethod
from enum import StrEnum
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class CountRelation(StrEnum):
    """How a count is to stand to a number."""

    LESS_THAN = "less than"
    AT_LEAST = "at least"

    def holds(self, count: int, number: int) -> bool:
        return count < number if self is CountRelation.LESS_THAN else count >= number


class Constraint(BaseModel):
    """One instruction with IFEval's own names for what it is about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    #: How much work a character is: a `Verifier.reads`.
    reads: ClassVar[float] = 2.0

    @abstractmethod
    def holds(self, text: str) -> bool:
        """Whether the text, which is not empty, follows the instruction."""
