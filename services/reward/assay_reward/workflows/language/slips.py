"""Missing words that a reader may add to a source."""

from dataclasses import dataclass

from assay_reward.workflows.language.problems import Problem, ProblemKind
from assay_reward.workflows.language.tree import Position


@dataclass(frozen=True, slots=True)
class Slip:
    """A word (`await`, `async`) that is missing before the code at a position."""

    word: str
    position: Position

    def problem(self) -> Problem:
        """Return the slip as a problem."""
        return Problem(
            ProblemKind.SYNTAX, f"{self.word} is missing", self.position, f"write {self.word}"
        )
