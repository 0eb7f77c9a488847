"""Values of expressions. Nothing here waits, and every text and list has a cap."""

from collections.abc import Mapping

from assay_reward.workflows.execution.budgets import RunUsage
from assay_reward.workflows.language.tree import (
    AllOf,
    AnyOf,
    BooleanValue,
    Compared,
    Containment,
    Expression,
    FieldOf,
    ListValue,
    Negation,
    NumberValue,
    RecordValue,
    TextValue,
    Variable,
)
from assay_reward.workflows.operators.support.faults import FaultKind, WorkflowFault
from assay_reward.workflows.operators.support.operator import Plain, Record
from assay_reward.workflows.operators.support.texts import fitted, joined, num_own

#: What a name of a workflow can be bound to.
Value = Plain | Record
Names = Mapping[str, Value]


class RepairedValue(tuple[str, ...]):
    """What a name holds after a repair's first value: it can be added to, and not read."""

    __slots__ = ()


class ExpressionValues:
    """Values of expressions under the names of a moment; each part of one is a step."""

    def __init__(self, usage: RunUsage) -> None:
        self._usage = usage

    def value(self, expression: Expression, names: Names) -> Value:
        """Return the value of an expression.

        Raises:
            WorkflowFault: a name is not set, a value does not fit its use, or a budget is spent.
        """
        self._usage.take_steps()
        match expression:
            case BooleanValue(value) | NumberValue(value):
                return value
            case TextValue():
                return self._text(expression, names)
            case Variable() | FieldOf():
                return self._referred(expression, names)
            case ListValue(items):
                return self.fitting(tuple(self.text(item, names) for item in items))
            case RecordValue(fields):
                return {one.name: self.plain(one.value, names) for one in fields}
            case _:
                return self._condition(expression, names)

    def plain(self, expression: Expression, names: Names) -> Plain:
        """Return a value that is not a record; errors as in `value`."""
        value = self.value(expression, names)
        if isinstance(value, dict):
            raise WorkflowFault(
                FaultKind.VALUE,
                f"{expression.position}: a whole record; give one of its fields: "
                f"{', '.join(value)}",
            )
        return value

    def text(self, expression: Expression, names: Names) -> str:
        """Return a text; errors as in `value`."""
        value = self.plain(expression, names)
        if not isinstance(value, str):
            raise _wrong(expression, "a text", value)
        return value

    def is_true(self, expression: Expression, names: Names) -> bool:
        """Return the value of a condition; errors as in `value`."""
        value = self.value(expression, names)
        if not isinstance(value, bool):
            raise _wrong(expression, "true or false", value)
        return value

    def appended(self, before: Value, item: str) -> tuple[str, ...]:
        """Return a list with one more item; errors as in `value`."""
        if not isinstance(before, tuple):
            raise WorkflowFault(FaultKind.VALUE, "only a list can get one more item")
        return self.fitting((*before, item))

    def fitting(self, items: tuple[str, ...]) -> tuple[str, ...]:
        """Return the list, if it is not too long."""
        most = self._usage.budgets.items
        if len(items) > most:
            raise WorkflowFault(FaultKind.TEXT, f"a list of more than {most} items")
        self._usage.check_text(sum(map(num_own, items)))
        return tuple(fitted(items, self._usage.budgets.longest_text))

    def _text(self, expression: TextValue, names: Names) -> str:
        parts: list[str] = []
        length = 0  # of the workflow's own characters
        for part in expression.parts:
            said = part if isinstance(part, str) else _shown(part, self._referred(part, names))
            parts.append(said)
            length += num_own(said)
            self._usage.check_text(length)
        return joined(fitted(parts, self._usage.budgets.longest_text))

    def _referred(self, reference: Variable | FieldOf, names: Names) -> Value:
        if reference.name not in names:
            raise WorkflowFault(
                FaultKind.VALUE, f"{reference.position}: {reference.name} is not set"
            )
        value = names[reference.name]
        if isinstance(value, RepairedValue):
            what = f"{reference.name} has only the first value that a repair gave it"
            raise WorkflowFault(FaultKind.VALUE, f"{reference.position}: {what}; set it first")
        if isinstance(reference, Variable):
            return value
        if not isinstance(value, dict) or reference.field not in value:
            raise WorkflowFault(
                FaultKind.VALUE,
                f"{reference.position}: {reference.name} has no field {reference.field}",
            )
        return value[reference.field]

    def _condition(self, expression: Expression, names: Names) -> bool:
        match expression:
            case Compared():
                return self._compared(expression, names)
            case Containment(item, container):
                inside = self.plain(container, names)
                if not isinstance(inside, str | tuple):
                    raise _wrong(container, "a text or a list", inside)
                return self.text(item, names) in inside
            case AllOf(conditions):
                return all(self.is_true(one, names) for one in conditions)
            case AnyOf(conditions):
                return any(self.is_true(one, names) for one in conditions)
            case Negation(condition):
                return not self.is_true(condition, names)
            case _:
                raise AssertionError(f"an expression of an unknown kind: {expression!r:.80}")

    def _compared(self, expression: Compared, names: Names) -> bool:
        left, right = self.plain(expression.left, names), self.plain(expression.right, names)
        if expression.sign == "==":
            return _equal(left, right)
        if expression.sign == "!=":
            return not _equal(left, right)
        for side, value in ((expression.left, left), (expression.right, right)):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise _wrong(side, "a number", value)
        assert isinstance(left, int | float)
        assert isinstance(right, int | float)
        orders = {
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }
        return orders[expression.sign]


def _equal(left: Plain, right: Plain) -> bool:
    """Return True for equal values of one kind: 1 and true differ."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _shown(part: Variable | FieldOf, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    raise WorkflowFault(
        FaultKind.VALUE, f"{part.position}: a hole of a text takes no list and no record"
    )


def _wrong(expression: Expression, wanted: str, value: Value) -> WorkflowFault:
    kinds = {str: "a text", bool: "true or false", tuple: "a list", dict: "a record"}
    found = kinds.get(type(value), "a number")
    return WorkflowFault(FaultKind.VALUE, f"{expression.position}: {found}, not {wanted}")
