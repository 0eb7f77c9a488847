"""A source after its idioms are rewritten, and the record of each."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from assay_reward.workflows.language.tree import Position
from assay_reward.workflows.repair.edits import SourceRepair

#: A source that needs more is written in another language; it is left as it is.
MAX_IDIOMS = 64


@dataclass(frozen=True, slots=True)
class RewrittenSource:
    """A source, its repairs with places in the source as given, and where its lines come from.

    `starts`: the lines of the rewritten source at which a step begins, in order, each with the
    place of the step in the source as given. Without them, lines have kept their numbers.
    """

    source: str
    repairs: tuple[SourceRepair, ...] = ()
    starts: Sequence[tuple[int, Position]] = ()

    def given_place(self, position: Position) -> Position:
        """Return a place of the rewritten source as a place in the source as given."""
        after = bisect_right([line for line, _ in self.starts], position.line)
        return self.starts[after - 1][1] if after else position
