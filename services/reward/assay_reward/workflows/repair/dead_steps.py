"""Removes steps that no path reaches, such as a `return` after an `if` whose sides both return."""

from collections.abc import Sequence

from assay_reward.workflows.language.blocks import Block, with_blocks
from assay_reward.workflows.language.tree import Position, Statement, Workflow, walk
from assay_reward.workflows.repair.edits import RepairKind, SourceRepair


def without_dead_steps(tree: Workflow, dead: Sequence[Statement]) -> Workflow:
    """Return the tree; each block ends before its dead step, if it has one."""
    firsts = set(map(id, dead))

    def cut(block: Block) -> Block:
        reached = next((at for at, step in enumerate(block) if id(step) in firsts), len(block))
        return block[:reached]

    return with_blocks(tree, cut)


def dead_repairs(dead: Sequence[Statement], source: str) -> list[SourceRepair]:
    """Return a repair for each removed part: `before` is its first line in the source."""
    lines = source.split("\n")
    return [
        SourceRepair(
            RepairKind.UNREACHABLE, step.position, lines[step.position.line - 1].strip(), ""
        )
        for step in dead
    ]


def places_of(printed: Workflow, written: Workflow) -> dict[Position, Position]:
    """Return the place in the source for each place in its print; both trees are equal."""
    pairs = zip(walk(printed), walk(written), strict=True)
    return {one.position: other.position for one, other in pairs}
