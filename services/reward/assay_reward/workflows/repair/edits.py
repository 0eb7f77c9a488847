"""Edits of a source at given places, and their record."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from assay_reward.workflows.language.tree import Position


class RepairKind(StrEnum):
    """Kinds of repairs; a policy may be charged for each."""

    AWAIT = "await"
    ASYNC = "async"
    OPERATOR = "operator"
    IDIOM = "idiom"
    UNREACHABLE = "unreachable"
    INITIALISE = "initialise"


@dataclass(frozen=True, slots=True)
class SourceRepair:
    """One edit: `after` replaces `before` at a place of the source as it was given.

    `before` and `after` of an IDIOM or UNREACHABLE are the first lines of what changed.
    An INITIALISE puts the line `after` before the line of the position; its `before` is empty.
    """

    kind: RepairKind
    position: Position
    before: str
    after: str

    def __str__(self) -> str:
        if self.kind is RepairKind.INITIALISE:
            return f"{self.position}: set at first: {self.after.strip()}"
        if self.kind is RepairKind.UNREACHABLE:
            return f"{self.position}: removed, because no path reaches it: {self.before}"
        if not self.before:
            return f"{self.position}: added: {self.after.strip()}"
        if not self.after:
            return f"{self.position}: removed: {self.before}"
        return f"{self.position}: {self.before} is now {self.after}"


def applied(source: str, repairs: Sequence[SourceRepair]) -> str:
    """Return the source with all repairs; each finds its `before` at its position.

    Raises:
        ValueError: the source has another text there.
    """
    lines = source.split("\n")
    in_order = sorted(
        repairs,
        key=lambda one: (
            one.position.line,
            one.kind is not RepairKind.INITIALISE,
            one.position.column,
            bool(one.before),
        ),
    )
    # The last edit is the first to be made, so that the places of the others still hold.
    for repair in reversed(in_order):
        index, column = repair.position.line - 1, repair.position.column - 1
        if repair.kind is RepairKind.INITIALISE:
            lines.insert(index, repair.after)
            continue
        line = lines[index]
        if not line.startswith(repair.before, column):
            raise ValueError(f"{repair.position}: {repair.before} is not there")
        rest = line[column + len(repair.before) :]
        lines[index] = line[:column] + repair.after + rest
    return "\n".join(lines)


def diff_of(before: str, after: str) -> str:
    """Return a unified diff; empty if nothing changed."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        "workflow as written",
        "workflow as repaired",
        n=2,
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
