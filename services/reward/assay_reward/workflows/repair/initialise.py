"""Sets names at first that some path leaves unset."""

from collections.abc import Iterator, Mapping, Sequence

from assay_reward.workflows.language.assignment import NameScope, flow_of
from assay_reward.workflows.language.blocks import Block, with_blocks
from assay_reward.workflows.language.python_form.printer import expression_python
from assay_reward.workflows.language.signatures import Signatures, ValueType
from assay_reward.workflows.language.source import WorkflowForm
from assay_reward.workflows.language.step_types import binding_types
from assay_reward.workflows.language.text_form.printer import expression_text
from assay_reward.workflows.language.tree import (
    Append,
    Argument,
    Assign,
    BooleanValue,
    Branch,
    Expression,
    FieldOf,
    FirstValue,
    ListValue,
    Loop,
    Node,
    NumberValue,
    Position,
    RecordValue,
    Statement,
    TextValue,
    Variable,
    Workflow,
    children,
    walk,
)
from assay_reward.workflows.language.types import RecordType, Type, joined
from assay_reward.workflows.repair.edits import RepairKind, SourceRepair

#: A source that needs more is not near a workflow; its other names stay errors.
MAX_FIRST_VALUES = 20


def initial_repairs(
    tree: Workflow, source: str, form: WorkflowForm, signatures: Signatures
) -> list[SourceRepair]:
    """Return a repair for each name that some path sets before a read, and another does not.

    A name that no path sets before the read, the result of a branch that runs at the same time,
    and a name of different types stay errors: a first value would hide them.
    """
    types = binding_types(tree, signatures)
    lines = source.split("\n")
    found: list[SourceRepair] = []
    tried: set[tuple[int, str]] = set()
    for read in flow_of(tree).unset:
        home = read.home
        if home is None or read.of_sibling or (read.never_set and not read.by_append):
            continue
        if (id(home), read.name) in tried:
            continue
        tried.add((id(home), read.name))
        if len(tried) > MAX_FIRST_VALUES:
            break
        if read.never_set and not _is_only_added_to(read.name, home):
            continue
        value = initial_value(_type_of(read.name, home, types))
        if value is None:
            continue
        step = next(step for step in home.body if _mentions(step, read.name))
        shown = expression_python if form is WorkflowForm.PYTHON else expression_text
        indent = lines[step.position.line - 1][: step.position.column - 1]
        line = f"{indent}{read.name} = {shown(value)}"
        found.append(SourceRepair(RepairKind.INITIALISE, step.position, "", line))
    return found


def marked(tree: Workflow, firsts: Sequence[SourceRepair]) -> Workflow:
    """Return the tree of the repaired source, with its added steps as first values."""
    ordered = sorted(firsts, key=lambda one: (one.position.line, one.position.column))
    lines = {one.position.line + above for above, one in enumerate(ordered)}

    def mark(block: Block) -> Block:
        return tuple(
            FirstValue(step.name, step.value, position=step.position)
            if isinstance(step, Assign) and step.position.line in lines
            else step
            for step in block
        )

    return with_blocks(tree, mark)


def _is_only_added_to(name: str, home: NameScope) -> bool:
    """Return whether the name is a list that begins with an addition: it begins empty."""
    return all(isinstance(one, Append) for one in _bindings(name, home))


def initial_value(kind: Type) -> Expression | None:
    """Return the empty value of a type; None if the type is unknown or mixed."""
    match kind:
        case ValueType.TEXT:
            return TextValue(())
        case ValueType.NUMBER:
            return NumberValue(0)
        case ValueType.BOOLEAN:
            return BooleanValue(False)
        case ValueType.TEXTS:
            return ListValue(())
        case RecordType(fields=fields):
            values = [(name, initial_value(one)) for name, one in fields]
            return RecordValue(tuple(Argument(name, value) for name, value in values if value))
        case _:
            return None


def _type_of(name: str, home: NameScope, types: Mapping[tuple[Position, str], Type]) -> Type:
    kinds = [types.get((one.position, name)) for one in _bindings(name, home)]
    kind = kinds[0]
    for other in kinds[1:]:
        kind = joined(kind, other)
    return kind


def _bindings(name: str, home: NameScope) -> Iterator[Node]:
    """Return the steps of a scope that bind a name, without those inside its branches."""
    waiting: list[Node] = list(reversed(home.body))
    while waiting:
        node = waiting.pop()
        if _binds(node, name):
            yield node
        if not isinstance(node, Branch):
            waiting.extend(reversed([*children(node)]))


def _binds(node: Node, name: str) -> bool:
    match node:
        case Assign(name=bound) | Append(name=bound) | Branch(target=bound) | Loop(index=bound):
            return bound == name
    return False


def _mentions(step: Statement, name: str) -> bool:
    return any(
        _binds(node, name) or (isinstance(node, Variable | FieldOf) and node.name == name)
        for node in walk(step)
    )
