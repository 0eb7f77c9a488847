"""Tells what `name += value` of the text form adds to: a list, or a text."""

from collections import defaultdict
from dataclasses import replace

from assay_reward.workflows.language.blocks import with_blocks
from assay_reward.workflows.language.tree import (
    Append,
    Assign,
    Branch,
    FieldOf,
    ListValue,
    Node,
    RecordValue,
    Reference,
    Statement,
    TextValue,
    Variable,
    Workflow,
    text_of,
    walk,
)


def with_text_additions(tree: Workflow) -> Workflow:
    """Return the tree in which `t += "b"` of a text `t` is the step `t = "{t}b"`.

    A name that no step binds to anything else is a list, as is a name that a step may bind to one.
    `l += ["b"]` always adds to a list.
    """
    bound, lists = _bound_and_lists(tree)

    def read(step: Statement) -> Statement:
        match step:
            case Append(item=ListValue(items=(item,))):
                return replace(step, item=item)
            case Append(name=name) if name in bound and name not in lists:
                return _joined(step)
            case _:
                return step

    return with_blocks(tree, lambda block: tuple(map(read, block)))


def with_brackets(tree: Workflow) -> Workflow:
    """Return the tree with `l += ["b"]` where `l += "b"` would be read as something else."""
    bound, lists = _bound_and_lists(tree)

    def write(step: Statement) -> Statement:
        match step:
            case Append(name=name, item=item) if (name in bound and name not in lists) or (
                isinstance(item, ListValue) and len(item.items) == 1
            ):
                return replace(step, item=ListValue((item,), position=item.position))
            case _:
                return step

    return with_blocks(tree, lambda block: tuple(map(write, block)))


def _joined(step: Append) -> Statement:
    at, item = step.position, step.item
    parts: tuple[str | Reference, ...]
    if isinstance(item, TextValue):
        parts = item.parts
    elif isinstance(item, Variable | FieldOf):
        parts = (item,)
    else:
        return step
    return Assign(step.name, text_of([Variable(step.name, position=at), *parts], at), position=at)


def _bound_and_lists(tree: Workflow) -> tuple[set[str], set[str]]:
    """Return the names that steps bind, and those that may be a list; a field is `.field`."""
    bound: set[str] = set()
    lists: set[str] = set()
    uses: dict[str, list[str]] = defaultdict(list)

    def bind(name: str, value: Node) -> None:
        match value:
            case ListValue():
                lists.add(name)
            case Variable(name=other):
                uses[other].append(name)
            case FieldOf(name=record, field=field):
                uses[f".{field}"].append(name)
                uses[record].append(name)

    for node in walk(tree):
        match node:
            case Assign(name=name, value=value) | Branch(target=name, result=value):
                bound.add(name)
                bind(name, value)
            case RecordValue(fields=fields):
                for one in fields:
                    bind(f".{one.name}", one.value)
    waiting = list(lists)
    while waiting:
        new = [name for name in uses[waiting.pop()] if name not in lists]
        lists.update(new)
        waiting.extend(new)
    return bound, lists
