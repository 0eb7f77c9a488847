"""The tree of a workflow; both written forms parse to it.

Nodes are frozen. A position says where the source has the node; it does not count in equality.

What an interpreter has to know:

- `problem` (text) is set from the start; nobody may assign it.
- Strings are immutable text, lists hold text alone. `Append` makes a longer list and binds it.
- A branch of `Parallel` starts with the names of the moment, and its own assignments stay inside
  it. After all branches end, each branch's result is bound to its target.
- `Loop` runs at most `times` passes (at least 1). It binds `index` (0, 1, ...), if it has one, then
  evaluates `condition`, if it has one, and ends when that is false. `Break` ends the innermost one.
- `OperatorCall` stands only as the value of an `Assign` or the result of a `Branch`; it gives a
  record. Arguments are evaluated in the order of the source.
- `Return` ends the workflow with a text. It never stands in a branch, and every path has one.
- Text may double in each pass of a loop: the interpreter caps the characters of a value.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a source: line and column count from 1, the column in characters."""

    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Node:
    """Any part of a tree."""

    position: Position = field(default=Position(), compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """The value of a name."""

    name: str


@dataclass(frozen=True, slots=True)
class FieldOf(Node):
    """A field of the record bound to a name: `draft.response`."""

    name: str
    field: str


Reference = Variable | FieldOf


@dataclass(frozen=True, slots=True)
class TextValue(Node):
    """Text with holes. Parts: never empty strings, never two strings in a row; () is empty text.

    A hole takes text, a number or a boolean; it shows the last two as `3`, `0.5`, `true`, `false`.
    """

    parts: tuple[str | Reference, ...]


@dataclass(frozen=True, slots=True)
class NumberValue(Node):
    """A finite number; a whole one is an int."""

    value: int | float


@dataclass(frozen=True, slots=True)
class BooleanValue(Node):
    """True or false."""

    value: bool


@dataclass(frozen=True, slots=True)
class ListValue(Node):
    """A list of texts."""

    items: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """A parameter or field with its value."""

    name: str
    value: "Expression"


@dataclass(frozen=True, slots=True)
class RecordValue(Node):
    """A record written out, as a name's first value: `{response: ""}`."""

    fields: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Compared(Node):
    """Two values compared: `==` and `!=` for text, numbers, booleans; the others for numbers."""

    sign: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Containment(Node):
    """True if a text contains a part, or a list an item."""

    item: "Expression"
    container: "Expression"


@dataclass(frozen=True, slots=True)
class AllOf(Node):
    """`a and b and ...`: evaluated from the left, up to the first false one."""

    conditions: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class AnyOf(Node):
    """`a or b or ...`: evaluated from the left, up to the first true one."""

    conditions: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Negation(Node):
    """`not a`. A tree never holds a negation of a negation."""

    condition: "Expression"


Expression = (
    Variable
    | FieldOf
    | TextValue
    | NumberValue
    | BooleanValue
    | ListValue
    | RecordValue
    | Compared
    | Containment
    | AllOf
    | AnyOf
    | Negation
)


@dataclass(frozen=True, slots=True)
class OperatorCall(Node):
    """A call of an operator; it gives a record with the fields of the operator's signature."""

    operator: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """Bind a name to a value or to an operator's result."""

    name: str
    value: Expression | OperatorCall


@dataclass(frozen=True, slots=True)
class FirstValue(Assign):
    """A first value that a repair chose: a run may add to the list, and may read nothing of it."""


@dataclass(frozen=True, slots=True)
class Append(Node):
    """Add a text to the end of a list."""

    name: str
    item: Expression


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """Steps that run while the other branches do, and a result bound to `target` at the end."""

    target: str
    body: tuple["Statement", ...]
    result: Expression | OperatorCall


@dataclass(frozen=True, slots=True)
class Parallel(Node):
    """Branches that run at the same time; the step ends when all have ended."""

    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class If(Node):
    """Run `then` if the condition is true, else `otherwise` (which may be empty)."""

    condition: Expression
    then: tuple["Statement", ...]
    otherwise: tuple["Statement", ...] = ()


@dataclass(frozen=True, slots=True)
class Loop(Node):
    """At most `times` passes, each while `condition` holds; `index` names the pass's number.

    Without a condition, the body never begins with `if c: break`: that is a condition `not c`.
    """

    times: int
    index: str | None
    condition: Expression | None
    body: tuple["Statement", ...]


@dataclass(frozen=True, slots=True)
class Break(Node):
    """End the innermost loop."""


@dataclass(frozen=True, slots=True)
class Return(Node):
    """End the workflow with a text."""

    value: Expression


Statement = Assign | Append | Parallel | If | Loop | Break | Return


@dataclass(frozen=True, slots=True)
class Workflow(Node):
    """A whole program."""

    body: tuple[Statement, ...]


def negated(condition: Expression) -> Expression:
    """Return the condition's opposite, without a double negation."""
    if isinstance(condition, Negation):
        return condition.condition
    return Negation(condition, position=condition.position)


def text_of(parts: list[str | Reference], position: Position) -> TextValue:
    """Return the text of these parts, with strings in a row joined and empty ones left out."""
    joined: list[str | Reference] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, str) and isinstance(last, str):
            joined[-1] = last + part
        elif part != "":
            joined.append(part)
    return TextValue(tuple(joined), position=position)


def loop_of(
    times: int,
    index: str | None,
    condition: Expression | None,
    body: tuple[Statement, ...],
    *,
    position: Position,
) -> Loop:
    """Return the loop; without a condition, a first step `if c: break` becomes it."""
    if condition is None and len(body) > 1:
        match body[0]:
            case If(then=(Break(),), otherwise=()) as leave:
                condition, body = negated(leave.condition), body[1:]
    return Loop(times, index, condition, body, position=position)


def children(node: Node) -> Iterator[Node]:
    """Return the nodes directly under a node, in the order of the source."""
    for part in fields(node):
        value = getattr(node, part.name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Node))


def walk(node: Node) -> Iterator[Node]:
    """Return a node and all nodes under it, in the order of the source."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(reversed(list(children(found))))
