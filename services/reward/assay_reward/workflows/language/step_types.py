"""Gives types to names along every path, and finds wrong operators, parameters, fields and types.

A name may have different types at different steps: AFlow's workflows bind `solution` again and
again. Where paths join, two records keep the fields that they share.
"""

from collections.abc import Mapping, Sequence

from assay_reward.workflows.language.names import INPUT
from assay_reward.workflows.language.problems import Problem, ProblemKind
from assay_reward.workflows.language.signatures import Signatures, ValueType
from assay_reward.workflows.language.tree import (
    Append,
    Assign,
    Branch,
    Break,
    Expression,
    If,
    Loop,
    Node,
    OperatorCall,
    Parallel,
    Position,
    Return,
    Statement,
    Workflow,
)
from assay_reward.workflows.language.types import (
    Names,
    RecordType,
    Type,
    joined_names,
    record_of,
)
from assay_reward.workflows.language.value_types import ValueTyping

#: Steps to visit at most: a chain of assignments in loops can take a pass for each of its names.
_MAX_WORK = 50_000


def type_problems(tree: Workflow, signatures: Signatures) -> list[Problem]:
    """Return the problems of types, operators, parameters and fields."""
    return list(_typed(tree, signatures).values.problems.values())


def binding_types(tree: Workflow, signatures: Signatures) -> Mapping[tuple[Position, str], Type]:
    """Return the type that each step gives to a name, by the step's position and the name."""
    return _typed(tree, signatures).bindings


def _typed(tree: Workflow, signatures: Signatures) -> "_StepTyping":
    typing = _StepTyping(signatures)
    typing.block(tree.body, {INPUT: ValueType.TEXT})
    return typing


class _StepTyping:
    """A walk over the steps; it binds names in place, and copies them where paths part."""

    def __init__(self, signatures: Signatures) -> None:
        self.values = ValueTyping()
        self.bindings: dict[tuple[Position, str], Type] = {}
        self._signatures = signatures
        self._work = 0
        self._breaks: list[Names | None] = []
        #: What is known at each loop's head. It only loses knowledge, so all passes end.
        self._heads: dict[int, Names] = {}

    def block(self, steps: Sequence[Statement], names: Names | None) -> Names | None:
        for step in steps:
            if names is None:
                return None
            self._work += 1 + len(names) // 16 * isinstance(step, If | Loop | Parallel)
            if self._work > _MAX_WORK:
                hint = "give each name one kind of value"
                self._problem(ProblemKind.LIMIT, "types in the loops do not settle", step, hint)
                return None
            names = self._step(step, names)
        return names

    def _step(self, step: Statement, names: Names) -> Names | None:
        match step:
            case Assign(name=name, value=value):
                return self._bound(name, self._value(value, names), step.position, names)
            case Append():
                return self._append(step, names)
            case If(condition=condition, then=then, otherwise=otherwise):
                self.values.demand(condition, ValueType.BOOLEAN, names, "a condition")
                other = self.block(otherwise, dict(names))
                return joined_names(self.block(then, names), other)
            case Loop():
                return self._loop(step, names)
            case Parallel():
                return self._parallel(step, names)
            case Break():
                if self._breaks:
                    self._breaks[-1] = joined_names(self._breaks[-1], names)
                return None
            case Return(value=value):
                self.values.demand(value, ValueType.TEXT, names, "a workflow's result")
                return None

    def _append(self, step: Append, names: Names) -> Names:
        # One text is added at a time, in both forms.
        self.values.demand(step.item, ValueType.TEXT, names, "the one item that is added")
        if names.get(step.name, ValueType.TEXTS) not in (ValueType.TEXTS, None):
            self._problem(ProblemKind.TYPE, f"{step.name} is not a list", step, "begin with []")
        return self._bound(step.name, ValueType.TEXTS, step.position, names)

    def _bound(self, name: str, kind: Type, position: Position, names: Names) -> Names:
        if name in self._signatures:
            what, hint = f"{name} is an operator", "choose another name"
            self.values.report(ProblemKind.NAME, what, position, hint)
        self.bindings[position, name] = kind
        names[name] = kind
        return names

    def _problem(self, kind: ProblemKind, what: str, node: Node, hint: str) -> None:
        self.values.report(kind, what, node.position, hint)

    def _loop(self, step: Loop, names: Names) -> Names | None:
        if step.index is not None:
            names = self._bound(step.index, ValueType.NUMBER, step.position, names)
        entry = joined_names(self._heads.get(id(step)), names)
        while True:
            head = dict(entry or {})
            self._heads[id(step)] = head
            if step.condition is not None:
                self.values.demand(step.condition, ValueType.BOOLEAN, head, "a condition")
            self._breaks.append(None)
            end = self.block(step.body, dict(head))
            left = self._breaks.pop()
            entry = joined_names(head, _with_index(step, end))
            if entry == head:
                break
        end = joined_names(end, left)
        return end if step.condition is None else joined_names(end, dict(head))

    def _parallel(self, step: Parallel, names: Names) -> Names:
        results = {branch.target: self._branch(branch, names) for branch in step.branches}
        for branch in step.branches:
            names = self._bound(branch.target, results[branch.target], branch.position, names)
        return names

    def _branch(self, branch: Branch, names: Names) -> Type:
        around, self._breaks = self._breaks, []
        end = self.block(branch.body, dict(names))
        self._breaks = around
        return None if end is None else self._value(branch.result, end)

    def _value(self, value: Expression | OperatorCall, names: Names) -> Type:
        if isinstance(value, OperatorCall):
            return self._call(value, names)
        return self.values.type_of(value, names)

    def _call(self, call: OperatorCall, names: Names) -> RecordType | None:
        signature = self._signatures.get(call.operator)
        if signature is None:
            hint = self.values.near(call.operator, self._signatures)
            self._problem(ProblemKind.OPERATOR, f"there is no operator {call.operator}", call, hint)
            for argument in call.arguments:
                self.values.type_of(argument.value, names)
            return None
        for argument in call.arguments:
            parameter = signature.parameters.get(argument.name)
            if parameter is None:
                hint = self.values.near(argument.name, signature.parameters)
                what = f"{call.operator} has no parameter {argument.name}"
                self._problem(ProblemKind.PARAMETER, what, argument, hint)
                self.values.type_of(argument.value, names)
            else:
                what = f"{argument.name} of {call.operator}"
                self.values.demand(argument.value, parameter.type, names, what)
        given = {argument.name for argument in call.arguments}
        needed = [name for name, one in signature.parameters.items() if one.required]
        missing = [name for name in needed if name not in given]
        if missing:
            what = f"{call.operator} lacks {', '.join(missing)}"
            hint = f"it needs {', '.join(needed)}"
            self._problem(ProblemKind.PARAMETER, what, call, hint)
        return record_of(signature.fields)


def _with_index(step: Loop, names: Names | None) -> Names | None:
    """Return the names at the head of the next pass, which binds the index again."""
    if names is None or step.index is None:
        return names
    return {**names, step.index: ValueType.NUMBER}
