"""Tools for edits of trees: names, references, and statements in place of others."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import cast

from assay_reward.workflows.language.tree import (
    Argument,
    Assign,
    Expression,
    FieldOf,
    Node,
    OperatorCall,
    Reference,
    Return,
    Statement,
    TextValue,
    Variable,
    Workflow,
    walk,
)


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return the node with `change` applied to all parts, the innermost first."""
    values: dict[str, object] = {}
    for part in fields(node):
        value = getattr(node, part.name)
        if isinstance(value, Node):
            values[part.name] = rebuilt(value, change)
        elif isinstance(value, tuple):
            values[part.name] = tuple(
                rebuilt(item, change) if isinstance(item, Node) else item for item in value
            )
    return change(replace(node, **values))  # type: ignore[arg-type]


def renamed_field(tree: Workflow, name: str, new: Reference) -> Workflow:
    """Return the tree with every field of `name` replaced by the reference."""

    def change(node: Node) -> Node:
        return new if isinstance(node, FieldOf) and node.name == name else node

    return cast(Workflow, rebuilt(tree, change))


def names_of(tree: Workflow) -> set[str]:
    """Return all names that stand in a tree."""
    found = {"problem"}
    for node in walk(tree):
        found |= {
            value
            for part in fields(node)
            if part.name in ("name", "target", "index")
            and isinstance(value := getattr(node, part.name), str)
        }
    return found


def fresh(tree: Workflow, stem: str, number: int = 1) -> list[str]:
    """Return names that do not stand in the tree: `stem`, `stem2`, ..."""
    taken, place = names_of(tree), 1
    found: list[str] = []
    while len(found) < number:
        name = stem if place == 1 else f"{stem}{place}"
        place += 1
        if name not in taken:
            found.append(name)
    return found


def with_statements(tree: Workflow, place: int, *instead: Statement) -> Workflow:
    """Return the tree with these statements in place of the one at `place` of its body."""
    return Workflow((*tree.body[:place], *instead, *tree.body[place + 1 :]))


def calls(tree: Workflow) -> Iterator[tuple[int, Assign, OperatorCall]]:
    """Yield the operator calls of the body, with their places."""
    for place, step in enumerate(tree.body):
        if isinstance(step, Assign) and isinstance(step.value, OperatorCall):
            yield place, step, step.value


def last_return(tree: Workflow) -> Expression | None:
    """Return the value of the body's last step; None if that is not a return."""
    last = tree.body[-1]
    return last.value if isinstance(last, Return) else None


def call(operator: str, **arguments: Expression) -> OperatorCall:
    """Return a call with these arguments."""
    return OperatorCall(operator, tuple(Argument(*one) for one in arguments.items()))


def problem() -> Variable:
    """Return a reference to the problem."""
    return Variable("problem")


def said(text: str) -> TextValue:
    """Return a text without holes."""
    return TextValue((text,) if text else ())
