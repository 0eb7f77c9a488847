"""Changes in every block of a tree."""

from collections.abc import Callable
from dataclasses import replace

from assay_reward.workflows.language.tree import (
    If,
    Loop,
    Parallel,
    Statement,
    Workflow,
)

Block = tuple[Statement, ...]
#: Gives a block's new steps, from its steps as they are in the tree.
BlockChange = Callable[[Block], Block]


def with_blocks(tree: Workflow, change: BlockChange) -> Workflow:
    """Return the tree with each of its blocks changed, the outer ones first."""
    return replace(tree, body=_changed(tree.body, change))


def _changed(block: Block, change: BlockChange) -> Block:
    return tuple(_inside(step, change) for step in change(block))


def _inside(step: Statement, change: BlockChange) -> Statement:
    match step:
        case If(then=then, otherwise=otherwise):
            return replace(step, then=_changed(then, change), otherwise=_changed(otherwise, change))
        case Loop(body=body):
            return replace(step, body=_changed(body, change))
        case Parallel(branches=branches):
            inner = (replace(one, body=_changed(one.body, change)) for one in branches)
            return replace(step, branches=tuple(inner))
        case _:
            return step
