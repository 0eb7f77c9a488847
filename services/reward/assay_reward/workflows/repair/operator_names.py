"""Corrects operator names: their case, AFlow's snake case, or a single wrong letter."""

from collections.abc import Iterable

from assay_reward.workflows.language.problems import folded
from assay_reward.workflows.language.signatures import Signatures
from assay_reward.workflows.language.tree import OperatorCall, Workflow, walk
from assay_reward.workflows.repair.edits import RepairKind, SourceRepair

_MAX_CHARS = 64


def operator_repairs(tree: Workflow, source: str, signatures: Signatures) -> list[SourceRepair]:
    """Return a repair for each unknown operator that has exactly one near name."""
    lines = source.split("\n")
    found = []
    for node in walk(tree):
        if not isinstance(node, OperatorCall) or node.operator in signatures:
            continue
        name = nearest(node.operator, signatures)
        line, column = lines[node.position.line - 1], node.position.column - 1
        if name is not None and line.startswith(node.operator, column):
            repair = SourceRepair(RepairKind.OPERATOR, node.position, node.operator, name)
            found.append(repair)
    return found


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the one known name of the same letters, or with one edit; None if not exactly one."""
    if len(name) > _MAX_CHARS:
        return None
    short = folded(name)
    names = sorted(known)
    same = [one for one in names if folded(one) == short]
    near = same or [one for one in names if is_one_edit(folded(one), short)]
    return near[0] if len(near) == 1 else None


def is_one_edit(first: str, second: str) -> bool:
    """Return whether one letter added, dropped, replaced or swapped with the next makes the other.

    Names of at most three letters have no near names: too many words lie one edit away.
    """
    if min(len(first), len(second)) <= 3 or abs(len(first) - len(second)) > 1:
        return False
    shared = min(len(first), len(second))
    at = next((i for i in range(shared) if first[i] != second[i]), shared)
    one, two = first[at:], second[at:]
    replaced = one[1:] == two[1:]
    swapped = one[:2] == two[:2][::-1] and one[2:] == two[2:]
    return replaced or swapped or one[1:] == two or one == two[1:]
