"""Rewrites idioms inside values of the Python form."""

import ast
from collections.abc import Iterator, Mapping

from assay_reward.workflows.language.python_form.expressions import dotted
from assay_reward.workflows.language.signatures import Signatures, ValueType
from assay_reward.workflows.language.tree import Position
from assay_reward.workflows.repair.edits import RepairKind, SourceRepair
from assay_reward.workflows.repair.idioms.record import MAX_IDIOMS
from assay_reward.workflows.repair.operator_names import nearest

_MAX_SHOWN = 80


class PythonValues(ast.NodeTransformer):
    """Rewrites values; `repairs` has the record, `hoisted` the calls that need their own step."""

    def __init__(
        self, source: str, signatures: Signatures, names: set[str], texts: set[str]
    ) -> None:
        self._lines = source.split("\n")
        self.repairs: list[SourceRepair] = []
        self.hoisted: list[ast.stmt] = []
        #: Texts that the source binds outside of the workflow, by their names.
        self.constants: Mapping[str, ast.Constant] = {}
        self._signatures = signatures
        self._names = names
        self._texts = texts
        self._may_hoist = True
        #: Operators that AFlow's class binds to attributes of another name.
        self._bound: dict[str, str] = {}
        fields = [one.fields.items() for one in signatures.values()]
        self._fields = {name: kind for items in fields for name, kind in items}

    def bind_operators(self, init: ast.AST) -> None:
        """Learn `self.name = operator.Custom(...)` from the class's `__init__`."""
        for node in ast.walk(init):
            match node:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)],
                    value=ast.Call(func=func),
                ):
                    operator = (dotted(func) or "").rpartition(".")[2]
                    if nearest(name, self._signatures) != operator:
                        self._bound[f"self.{name}"] = operator

    def record(self, node: ast.stmt | ast.expr, after: ast.AST | None) -> None:
        """Record that a node is rewritten; without a new one, it is removed.

        Raises:
            ValueError: the source has too many idioms.
        """
        if len(self.repairs) == MAX_IDIOMS:
            raise ValueError(f"more than {MAX_IDIOMS} idioms")
        line = self._lines[node.lineno - 1].encode()
        end = node.end_col_offset if node.end_lineno == node.lineno else None
        before = line[node.col_offset : end].decode(errors="replace")
        column = len(line[: node.col_offset].decode(errors="replace")) + 1
        at = Position(node.lineno, column)
        shown = "" if after is None else _shown(after)
        repair = SourceRepair(RepairKind.IDIOM, at, before.strip()[:_MAX_SHOWN], shown)
        self.repairs.append(repair)

    def value(self, node: ast.expr, *, hoist: bool = True) -> ast.expr:
        """Return the value without idioms; `hoist`: whether calls in it may get their own step."""
        self._may_hoist = hoist
        found = self.visit(node)
        assert isinstance(found, ast.expr)
        return found

    def truth(self, node: ast.expr) -> ast.expr:
        """Return a condition with `!= ""` after each text in it."""
        match node:
            case ast.BoolOp(op=op, values=values):
                found: ast.expr = ast.BoolOp(op, [self.truth(one) for one in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                found = ast.UnaryOp(ast.Not(), self.truth(operand))
            case _ if self._is_text(node):
                found = ast.Compare(node, [ast.NotEq()], [ast.Constant("")])
                self.record(node, found)
            case _:
                return node
        return ast.copy_location(found, node)

    def _is_text(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._texts
        return self._fields.get(field_of(node) or "") is ValueType.TEXT

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Keep calls inside: a later part may never be evaluated."""
        return self._without_hoists(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """Keep calls inside: a side may never be evaluated."""
        return self._without_hoists(node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        """Keep calls inside: they are made several times."""
        return self._without_hoists(node)

    def _without_hoists(self, node: ast.expr) -> ast.expr:
        before, self._may_hoist = self._may_hoist, False
        found = self.generic_visit(node)
        self._may_hoist = before
        assert isinstance(found, ast.expr)
        return found

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Give `(await Op(...))["field"]` its own step."""
        self.generic_visit(node)
        if not isinstance(node.value, ast.Await) or not self._may_hoist:
            return node
        name = next(name for name in self._free_names() if name not in self._names)
        self._names.add(name)
        step = ast.Assign([ast.Name(name, ast.Store())], node.value)
        self.hoisted.append(ast.copy_location(step, node))
        found = ast.Subscript(ast.Name(name, ast.Load()), node.slice, ast.Load())
        self.record(node, found)
        return ast.copy_location(found, node)

    def _free_names(self) -> Iterator[str]:
        yield from (f"result_{number}" for number in range(1, len(self._names) + 2))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        """Rewrite the holes; one that is a text then is part of the text."""
        self.generic_visit(node)
        node.values = [
            part.value
            if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Constant)
            else part
            for part in node.values
        ]
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return a text that the source binds outside of the workflow."""
        return self._constant(node, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Return a text of AFlow's `prompt_custom`, if the source has it."""
        match node:
            case ast.Attribute(value=ast.Name(id="prompt_custom"), attr=name):
                return self._constant(node, name)
        self.generic_visit(node)
        return node

    def _constant(self, node: ast.expr, name: str) -> ast.expr:
        if name not in self.constants:
            return node
        return ast.copy_location(ast.Constant(self.constants[name].value), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Rewrite `.get("field")`, and the arguments of operators."""
        bound = self._bound.get(dotted(node.func) or "")
        if bound is not None:
            func = ast.copy_location(ast.Name(bound, ast.Load()), node.func)
            self.record(node.func, func)
            node.func = func
        called = node.func
        self.generic_visit(node)
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name() | ast.Await() as owner, attr="get"),
                args=[ast.Constant(value=str(field)) as key, *rest],
                keywords=[],
            ) if len(rest) < 2:
                return self._got(node, owner, key, field, rest)
        name = nearest(dotted(called) or "", self._signatures)
        if name is not None:
            self._name_arguments(node, name)
        return node

    def _got(
        self, node: ast.Call, owner: ast.expr, key: ast.expr, field: str, rest: list[ast.expr]
    ) -> ast.expr:
        default = rest[0] if rest else None
        if field not in self._fields and isinstance(default, ast.Constant):
            # No operator has this field, so Python takes the default value.
            self.record(node, default)
            return default
        found = ast.copy_location(ast.Subscript(owner, key, ast.Load()), node)
        self.record(node, found)
        return self.visit_Subscript(found)

    def _name_arguments(self, node: ast.Call, name: str) -> None:
        parameters = self._signatures[name].parameters
        given = {keyword.arg for keyword in node.keywords}
        if "entry_point" in given and "entry_point" not in parameters:
            left_out = next(one for one in node.keywords if one.arg == "entry_point")
            self.record(left_out.value, None)
            node.keywords.remove(left_out)
        if not node.args or len(node.args) > len(parameters):
            return
        if any(isinstance(one, ast.Starred) for one in node.args):
            return
        named = []
        for parameter, value in zip(parameters, node.args, strict=False):
            named.append(ast.keyword(parameter, value))
            self.record(value, ast.Constant(f"{parameter}=..."))
        node.args = []
        node.keywords = named + node.keywords


def field_of(node: ast.expr) -> str | None:
    """Return the field of `name["field"]`; None for another value."""
    match node:
        case (
            ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str(field)))
            | ast.Attribute(value=ast.Name(), attr=field)
        ):
            return field
    return None


def _shown(node: ast.AST) -> str:
    match node:
        case ast.If(test=test):
            return f"if {ast.unparse(test)[:_MAX_SHOWN]}:"
        case ast.AsyncFunctionDef(name=name) | ast.FunctionDef(name=name):
            return f"async def {name}(...)"
    return ast.unparse(node).partition("\n")[0][:_MAX_SHOWN]
