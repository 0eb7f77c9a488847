"""Assertions split in two: what the program computes, and what is expected of it.

    assert candidate([1, 2]) == 3        inside: candidate([1, 2])      outside: _ == 3

Only the first half enters the slot; its value comes back and the second half is evaluated here, so
that no trick of the program's (an equality that is always true, a patched builtin, a raised
SystemExit) can make a wrong value pass. Test code that has more in it than such assertions cannot
be split.
"""

import ast
import builtins
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

_CHECK = "check"
_MAX_EXPONENT, _MAX_POWER_BASE = 1000, 10**6
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_OPERATIONS: dict[type[ast.AST], Callable[..., object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
#: Called here, on values, wherever an assertion names them.
_FUNCTIONS: dict[str, Callable[..., object]] = {
    "abs": abs,
    "all": all,
    "any": any,
    "bool": bool,
    "float": float,
    "int": int,
    "len": len,
    "list": list,
    "max": max,
    "min": min,
    "round": round,
    "set": set,
    "sorted": sorted,
    "str": str,
    "sum": sum,
    "tuple": tuple,
    "math.isclose": math.isclose,
    "math.fabs": math.fabs,
}


class CannotSplit(Exception):
    """The test code has something in it that only its own process can evaluate."""


@dataclass(frozen=True)
class Assertion:
    """One assertion. `inside` gives a tuple of values; `setup` are the imports before it."""

    inside: str
    setup: str
    _outside: ast.expr = field(repr=False)

    def holds(self, values: tuple[object, ...]) -> bool:
        """Whether it holds for what the program computed; raises what the comparison raises."""
        return bool(_evaluate(self._outside, values))


def split(code: str) -> list[Assertion]:
    """The assertions of test code, in order.

    Understands assertions in a row, and HumanEval's `def check(candidate)` with its call.

    Raises:
        CannotSplit: it has more in it.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CannotSplit(f"it does not parse: {error}") from None
    found = list(_assertions(_statements(tree)))
    if not found:
        raise CannotSplit("it asserts nothing about the program")
    return found


def _statements(tree: ast.Module) -> list[ast.stmt]:
    """The body of `check`, with the name that it is called with, or else the module's own."""
    checks = [s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == _CHECK]
    if not checks:
        return tree.body
    calls = [s for s in tree.body if _is_check_call(s)]
    if len(checks) != 1 or len(calls) != 1 or len(checks[0].args.args) != 1:
        raise CannotSplit("check is not defined once, or not called once")
    (argument,) = calls[0].value.args  # type: ignore[attr-defined]
    if not isinstance(argument, ast.Name):
        raise CannotSplit("check is called with more than a name")
    rename = _Rename(checks[0].args.args[0].arg, argument.id)
    around = [s for s in tree.body if s is not checks[0] and s is not calls[0]]
    return around + [rename.visit(statement) for statement in checks[0].body]


def _is_check_call(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id == _CHECK
        and len(statement.value.args) == 1
    )


class _Rename(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._new, node.ctx) if node.id == self._old else node


def _assertions(statements: list[ast.stmt]) -> Iterator[Assertion]:
    setup: list[str] = []
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            setup.append(ast.unparse(statement))
        elif isinstance(statement, ast.Assert):
            splitter = _Splitter()
            outside = splitter.outside(statement.test)
            if splitter.inside:
                inside = ", ".join(ast.unparse(node) for node in splitter.inside)
                yield Assertion(f"({inside},)", "\n".join(setup), outside)
            elif not _evaluate(outside, ()):
                raise CannotSplit("it fails whatever the program does")
        elif not _does_nothing(statement):
            raise CannotSplit(f"line {statement.lineno} is no assertion")


def _does_nothing(statement: ast.stmt) -> bool:
    """A docstring, `pass`, or a name given to constants that no assertion uses (METADATA)."""
    if isinstance(statement, ast.Pass):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return [ast.unparse(target) for target in statement.targets] == ["METADATA"]
    return False


class _Splitter:
    """Takes the largest parts that only the program can compute out of an expression."""

    def __init__(self) -> None:
        self.inside: list[ast.expr] = []

    def outside(self, node: ast.expr) -> ast.expr:
        """The expression with a placeholder for each such part."""
        if not _names(node):
            _try_constant(node)
            return node
        match node:
            case ast.Compare(left, ops, comparators):
                first = self.outside(left)
                return ast.Compare(first, ops, [self.outside(one) for one in comparators])
            case ast.BoolOp(op, values):
                return ast.BoolOp(op, [self.outside(one) for one in values])
            case ast.UnaryOp(op, operand):
                return ast.UnaryOp(op, self.outside(operand))
            case ast.BinOp(left, op, right) if type(op) in _OPERATIONS:
                return ast.BinOp(self.outside(left), op, self.outside(right))
            case ast.Call(function, arguments, []) if ast.unparse(function) in _FUNCTIONS:
                return ast.Call(function, [self.outside(one) for one in arguments], [])
            case ast.Tuple(items, context) | ast.List(items, context):
                return type(node)([self.outside(one) for one in items], context)
        if not _calls_program(node):
            raise CannotSplit(f"{ast.unparse(node)} is neither a value nor the program's")
        self.inside.append(node)
        return ast.Subscript(ast.Name("_"), ast.Constant(len(self.inside) - 1))


def _try_constant(node: ast.expr) -> None:
    try:
        _evaluate(node, ())
    except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
        raise CannotSplit(f"{ast.unparse(node)}: {error}") from None


def _names(node: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _calls_program(node: ast.expr) -> bool:
    """Whether its value comes from a function that neither Python nor the test code brings.

    A builtin around it (isinstance, say) would be one that the program can replace.
    """
    if isinstance(node, ast.Call) and hasattr(builtins, ast.unparse(node.func)):
        return False
    return any(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Name)
        and not hasattr(builtins, one.func.id)
        for one in ast.walk(node)
    )


def _evaluate(node: ast.expr, values: tuple[object, ...]) -> object:
    """An expression over constants and the program's values; nothing else can be in it."""

    def of(one: ast.expr) -> object:
        return _evaluate(one, values)

    match node:
        case ast.Subscript(ast.Name("_"), ast.Constant(int(index))):
            return values[index]
        case ast.Constant() | ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
            return _literal(node, of)
        case ast.BoolOp(op, items):
            return _all_or_any(isinstance(op, ast.And), items, of)
        case ast.UnaryOp(op, operand):
            return _OPERATIONS[type(op)](of(operand))
        case ast.BinOp(left, ast.Pow(), right):
            return _power(of(left), of(right))
        case ast.BinOp(left, op, right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](of(left), of(right))
        case ast.Compare(left, ops, comparators):
            return _compare([of(one) for one in (left, *comparators)], ops)
        case ast.Call(function, arguments, []) if ast.unparse(function) in _FUNCTIONS:
            return _FUNCTIONS[ast.unparse(function)](*(of(one) for one in arguments))
    raise CannotSplit(f"{ast.unparse(node)} is not evaluated here")


def _literal(node: ast.expr, of: Callable[[ast.expr], object]) -> object:
    match node:
        case ast.Constant(value):
            return value
        case ast.Tuple(items):
            return tuple(of(item) for item in items)
        case ast.List(items):
            return [of(item) for item in items]
        case ast.Set(items):
            return {of(item) for item in items}
        case ast.Dict(keys, items) if None not in keys:
            pairs = zip(keys, items, strict=True)
            return {of(key): of(item) for key, item in pairs if key is not None}
    raise CannotSplit(f"{ast.unparse(node)} is not evaluated here")


def _all_or_any(is_and: bool, items: list[ast.expr], of: Callable[[ast.expr], object]) -> object:
    value: object = is_and
    for item in items:
        value = of(item)
        if bool(value) is not is_and:
            break
    return value


def _compare(values: list[object], ops: list[ast.cmpop]) -> bool:
    pairs = zip(values, values[1:], ops, strict=False)
    return all(_COMPARISONS[type(op)](left, right) for left, right, op in pairs)


def _power(base: object, exponent: object) -> object:
    if not isinstance(base, int | float) or not isinstance(exponent, int | float):
        raise CannotSplit("a power of no numbers")
    if abs(exponent) > _MAX_EXPONENT or abs(base) > _MAX_POWER_BASE:
        raise CannotSplit("a power too large to compute here")
    return base**exponent
