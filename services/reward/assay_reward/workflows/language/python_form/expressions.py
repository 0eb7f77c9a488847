"""Turns `ast` expressions into values, conditions and calls."""

import ast
from collections.abc import Sequence

from assay_reward.workflows.language.limits import WorkflowLimits
from assay_reward.workflows.language.names import named
from assay_reward.workflows.language.problems import (
    InvalidWorkflow,
    ProblemKind,
    refuse,
    shown,
)
from assay_reward.workflows.language.slips import Slip
from assay_reward.workflows.language.spelling.numbers import number_from
from assay_reward.workflows.language.tree import (
    AllOf,
    AnyOf,
    Argument,
    BooleanValue,
    Compared,
    Containment,
    Expression,
    FieldOf,
    ListValue,
    NumberValue,
    OperatorCall,
    Position,
    RecordValue,
    Reference,
    TextValue,
    Variable,
    negated,
    text_of,
)

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


class ExpressionConverter:
    """Converts expressions of one source; it keeps the slips found on the way."""

    def __init__(self, source: str, limits: WorkflowLimits) -> None:
        self._lines = source.split("\n")
        self._limits = limits
        self._depth = 0
        self.slips: list[Slip] = []

    def position(self, node: ast.stmt | ast.expr | ast.keyword | ast.arg) -> Position:
        """Return a node's place; `ast` counts columns in bytes of UTF-8."""
        line = self._lines[node.lineno - 1]
        before = node.col_offset
        if not line.isascii():
            before = len(line.encode()[:before].decode(errors="replace"))
        return Position(node.lineno, before + 1)

    def refused(
        self, node: ast.stmt | ast.expr | ast.keyword | ast.arg, what: str, hint: str = ""
    ) -> InvalidWorkflow:
        """Return a syntax error at a node."""
        return refuse(ProblemKind.SYNTAX, what, self.position(node), hint)

    def value_or_call(self, node: ast.expr) -> Expression | OperatorCall:
        """Return the value of a step: an awaited call, or an expression."""
        if isinstance(node, ast.Await):
            if not isinstance(node.value, ast.Call):
                raise self.refused(node, "await is for a call of an operator")
            return self.call(node.value)
        if isinstance(node, ast.Call) and not _is_str(node):
            position = self.position(node)
            call = self.call(node)
            self.slips.append(Slip("await", position))
            return call
        return self.expression(node)

    def call(self, node: ast.Call) -> OperatorCall:
        """Return a call of an operator; each argument has its name."""
        operator = dotted(node.func)
        if operator is None:
            raise self.refused(node, "this is not an operator", "write Operator(name=value)")
        if node.args:
            hint = f"name each argument: {operator}(name=value)"
            raise self.refused(node.args[0], "an argument without its name", hint)
        found: list[Argument] = []
        for keyword in node.keywords:
            found.append(self._argument(keyword, found))
        return OperatorCall(operator, tuple(found), position=self.position(node))

    def _argument(self, keyword: ast.keyword, found: Sequence[Argument]) -> Argument:
        if keyword.arg is None:
            raise self.refused(keyword, "** is not part of the language", "name each argument")
        position = self.position(keyword)
        return self._named_value(keyword.arg, keyword.value, position, found)

    def _named_value(
        self, name: str, value: ast.expr, position: Position, found: Sequence[Argument]
    ) -> Argument:
        if any(argument.name == name for argument in found):
            raise refuse(ProblemKind.PARAMETER, f"{name} is given twice", position, "give it once")
        return Argument(named(name, position), self.expression(value), position=position)

    def expression(self, node: ast.expr) -> Expression:
        """Return a value or condition."""
        self._depth += 1
        if self._depth > 2 * self._limits.max_depth:
            hint = f"at most {self._limits.max_depth} levels"
            raise refuse(ProblemKind.LIMIT, "nested too deeply", self.position(node), hint)
        found = self._expression(node, self.position(node))
        self._depth -= 1
        return found

    def _expression(self, node: ast.expr, at: Position) -> Expression:
        match node:
            case ast.Constant():
                return self._constant(node, at)
            case ast.JoinedStr():
                return self._joined(node, at)
            case ast.BinOp(op=ast.Add()):
                return self._sum(node, at)
            case ast.List(elts=items):
                return ListValue(tuple(map(self.expression, items)), position=at)
            case ast.Dict():
                return self._record(node, at)
            case ast.Call() if _is_str(node):
                return text_of([self.reference(node.args[0])], at)
            case ast.Call() | ast.Await():
                raise self.refused(node, "a call stands inside another step", _call_hint(node))
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self.reference(node)
            case _:
                return self._condition(node, at)

    def _condition(self, node: ast.expr, at: Position) -> Expression:
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as constant):
                number = self._constant(constant, at)
                if isinstance(number, NumberValue):
                    return number_from(f"-{number.value!r}", at)
                raise self.refused(node, "a minus sign stands before a number alone")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                condition = negated(self.expression(operand))
                return condition
            case ast.BoolOp(op=ast.And(), values=values):
                return AllOf(tuple(map(self.expression, values)), position=at)
            case ast.BoolOp(op=ast.Or(), values=values):
                return AnyOf(tuple(map(self.expression, values)), position=at)
            case ast.Compare():
                return self._comparison(node, at)
            case _:
                what, hint = _OUTSIDE.get(type(node), _OTHER)
                raise self.refused(node, f"{what} is not part of the language", hint)

    def _constant(self, node: ast.Constant, at: Position) -> Expression:
        match node.value:
            case bool(truth):
                return BooleanValue(truth, position=at)
            case str(text):
                return text_of([text], at)
            case int() | float():
                return number_from(repr(node.value), at)
            case _:
                raise self.refused(node, f"{shown(repr(node.value))} is not part of the language")

    def _joined(self, node: ast.JoinedStr, at: Position) -> TextValue:
        parts: list[str | Reference] = []
        for part in node.values:
            match part:
                case ast.Constant(value=str(text)):
                    parts.append(text)
                case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                    # CPython 3.11 places nodes in holes wrongly, so a hole has its text's place.
                    parts.append(self.reference(value, at))
                case _:
                    raise refuse(ProblemKind.SYNTAX, "a hole with a format", at, "write {name}")
        return text_of(parts, at)

    def _sum(self, node: ast.expr, at: Position) -> TextValue:
        """Return the text of `a + b + ...`; a chain is read without recursion."""
        operands: list[ast.expr] = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            operands.append(node.right)
            node = node.left
        chain = (node, *reversed(operands))
        return text_of([part for operand in chain for part in self.parts(operand)], at)

    def parts(self, node: ast.expr) -> tuple[str | Reference, ...]:
        """Return the parts of a text that `+` joins to another.

        Raises:
            InvalidWorkflow: it is neither a text nor a name.
        """
        value = self.expression(node)
        if isinstance(value, TextValue):
            return value.parts
        if isinstance(value, Variable | FieldOf):
            return (value,)
        raise self.refused(node, "+ joins texts alone", "numbers are not computed")

    def _record(self, node: ast.Dict, at: Position) -> RecordValue:
        found: list[Argument] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                raise self.refused(node, "a record's fields are texts", '{"field": value}')
            found.append(self._named_value(key.value, value, self.position(key), found))
        return RecordValue(tuple(found), position=at)

    def reference(self, node: ast.expr, at: Position | None = None) -> Reference:
        """Return a name or a field of a name: `draft`, `draft["response"]`, `draft.response`."""
        at = at or self.position(node)
        match node:
            case ast.Name(id=name):
                return Variable(named(name, at), position=at)
            case (
                ast.Attribute(value=ast.Name(id=name), attr=field)
                | ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(field)))
            ):
                return FieldOf(named(name, at), named(field, at), position=at)
            case _:
                hint = 'write name or name["field"]'
                raise refuse(ProblemKind.SYNTAX, "this is not a name or a field", at, hint)

    def _comparison(self, node: ast.Compare, at: Position) -> Expression:
        if len(node.ops) != 1:
            raise self.refused(node, "two comparisons in a row", "join them with and")
        left, right = self.expression(node.left), self.expression(node.comparators[0])
        match node.ops[0]:
            case ast.In():
                return Containment(left, right, position=at)
            case ast.NotIn():
                return negated(Containment(left, right, position=at))
            case sign:
                return Compared(_SIGNS[type(sign)], left, right, position=at)


def _is_str(node: ast.Call) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="str"), args=[_], keywords=[]):
            return True
    return False


def dotted(node: ast.expr) -> str | None:
    """Return the name of what is called: `Custom`, `self.custom`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
    return None


def _call_hint(node: ast.Call | ast.Await) -> str:
    """Return what to write for a call inside a value; AFlow's workflows often call these."""
    name = (dotted(node.func) or "") if isinstance(node, ast.Call) else ""
    known = {
        "get": 'write name["field"]',
        "len": "lengths are not counted; write the list where it is needed",
        "join": "write a text with holes",
        "strip": "texts are not changed; ask an operator",
        "lower": "texts are not changed; ask an operator",
    }
    own_line = "give the call its own line: name = await Operator(...)"
    return known.get(name.rpartition(".")[2], own_line)


_OTHER = ("this value", "values are names, fields, texts, numbers, lists and comparisons")
_OUTSIDE: dict[type[ast.expr], tuple[str, str]] = {
    ast.IfExp: ("an if inside a value", "write an if step"),
    ast.ListComp: ("a list made in one line", "write a loop that appends: for _ in range(3):"),
    ast.BinOp: ("arithmetic", "numbers are compared alone"),
    ast.UnaryOp: ("a sign before a value", "write a number"),
    ast.Tuple: ("a tuple", "write one value"),
}
