"""Types of values and conditions."""

from collections.abc import Iterable

from assay_reward.workflows.language.problems import Problem, ProblemKind, did_you_mean
from assay_reward.workflows.language.signatures import ValueType
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
    Position,
    RecordValue,
    TextValue,
    Variable,
)
from assay_reward.workflows.language.types import Names, RecordType, Type, record_of

_MAX_HINTS = 20
_SHOWABLE = (ValueType.TEXT, ValueType.NUMBER, ValueType.BOOLEAN)


class ValueTyping:
    """Finds types of values; problems are kept by place, so that a loop's passes do not repeat."""

    def __init__(self) -> None:
        self.problems: dict[tuple[Position, ProblemKind, str], Problem] = {}

    def report(self, kind: ProblemKind, what: str, position: Position, hint: str) -> None:
        """Keep a problem."""
        self.problems[position, kind, what] = Problem(kind, what, position, hint)

    def near(self, name: str, known: Iterable[str]) -> str:
        """Return a hint with the nearest known name; after many problems, none: it takes time."""
        return did_you_mean(name, known) if len(self.problems) < _MAX_HINTS else ""

    def demand(self, value: Expression, wanted: ValueType, names: Names, place: str) -> None:
        """Report the value if its type is known and is not the wanted one."""
        kind = self.type_of(value, names)
        if kind is None or kind == wanted:
            return
        hint = f"{wanted} is needed"
        if isinstance(kind, RecordType) and isinstance(value, Variable):
            fitting = [name for name, one in kind.fields if one == wanted]
            if fitting:
                hint = f"name its field: {' or '.join(fitting)}"
        elif wanted == ValueType.TEXT and kind in _SHOWABLE:
            hint = "put it into a text, as a hole"
        self.report(ProblemKind.TYPE, f"{place} is {_shown(kind)}", value.position, hint)

    def type_of(self, value: Expression, names: Names) -> Type:
        """Return the type; None if it is unknown, because of a problem elsewhere."""
        match value:
            case Variable(name=name):
                return names.get(name)
            case FieldOf():
                return self._field(value, names)
            case TextValue():
                return self._text(value, names)
            case NumberValue():
                return ValueType.NUMBER
            case ListValue(items=items):
                for item in items:
                    self.demand(item, ValueType.TEXT, names, "a list's item")
                return ValueType.TEXTS
            case RecordValue():
                return self._record(value, names)
            case _:
                self._check_condition(value, names)
                return ValueType.BOOLEAN

    def _field(self, value: FieldOf, names: Names) -> Type:
        kind = names.get(value.name)
        if kind is None:
            return None
        if not isinstance(kind, RecordType):
            what = f"{value.name} has no fields: it is {_shown(kind)}"
            self.report(ProblemKind.FIELD, what, value.position, "write the name alone")
            return None
        found = kind.field(value.field)
        if found is None:
            what = f"{value.name} has no field {value.field}"
            hint = self.near(value.field, [name for name, _ in kind.fields])
            self.report(ProblemKind.FIELD, what, value.position, hint)
        return found

    def _text(self, value: TextValue, names: Names) -> ValueType:
        for part in value.parts:
            if isinstance(part, str):
                continue
            kind = self.type_of(part, names)
            if kind is not None and kind not in _SHOWABLE:
                what = f"{part.name} in a text is {_shown(kind)}"
                hint = "a hole takes a text, a number or a boolean"
                if isinstance(kind, RecordType):
                    hint = f"name its field: {' or '.join(name for name, _ in kind.fields)}"
                self.report(ProblemKind.TYPE, what, part.position, hint)
        return ValueType.TEXT

    def _record(self, value: RecordValue, names: Names) -> Type:
        fields: dict[str, ValueType] = {}
        for one in value.fields:
            kind = self.type_of(one.value, names)
            if isinstance(kind, ValueType):
                fields[one.name] = kind
            elif kind is not None:
                what = f"field {one.name} is {_shown(kind)}"
                hint = "a field is a text, a number, a boolean or a list of texts"
                self.report(ProblemKind.TYPE, what, one.position, hint)
        return record_of(fields) if len(fields) == len(value.fields) else None

    def _check_condition(self, value: Expression, names: Names) -> None:
        match value:
            case AllOf(conditions=conditions) | AnyOf(conditions=conditions):
                for condition in conditions:
                    self.demand(condition, ValueType.BOOLEAN, names, "a condition")
            case Negation(condition=condition):
                self.demand(condition, ValueType.BOOLEAN, names, "a condition")
            case Compared():
                self._check_comparison(value, names)
            case Containment(item=item, container=container):
                self.demand(item, ValueType.TEXT, names, "the left side of in")
                kind = self.type_of(container, names)
                if kind not in (ValueType.TEXT, ValueType.TEXTS, None):
                    what = f"the right side of in is {_shown(kind)}"
                    hint = "a text or a list of texts is needed"
                    self.report(ProblemKind.TYPE, what, container.position, hint)
            case BooleanValue() | _:
                return

    def _check_comparison(self, value: Compared, names: Names) -> None:
        if value.sign not in ("==", "!="):
            for side in (value.left, value.right):
                self.demand(side, ValueType.NUMBER, names, f"a side of {value.sign}")
            return
        left, right = self.type_of(value.left, names), self.type_of(value.right, names)
        if left is None or right is None or (left == right and left in _SHOWABLE):
            return
        what = f"{_shown(left)} {value.sign} {_shown(right)}"
        hint = "compare two texts, two numbers or two booleans"
        self.report(ProblemKind.TYPE, what, value.position, hint)


def _shown(kind: Type) -> str:
    return f"a {kind}" if isinstance(kind, ValueType) else str(kind)
