"""Rewrites ordinary Python that has one meaning in the language: type hints, AFlow's class, ..."""

import ast
from collections.abc import Sequence

from assay_reward.workflows.language.limits import WorkflowLimits
from assay_reward.workflows.language.problems import InvalidWorkflow
from assay_reward.workflows.language.python_form.scan import IDIOM_WORDS, refuse_foreign
from assay_reward.workflows.language.signatures import Signatures
from assay_reward.workflows.language.tree import Position
from assay_reward.workflows.repair.idioms.python_values import PythonValues
from assay_reward.workflows.repair.idioms.record import RewrittenSource

_Function = ast.AsyncFunctionDef | ast.FunctionDef


def rewritten_python(
    source: str, signatures: Signatures, limits: WorkflowLimits
) -> RewrittenSource:
    """Return the source without idioms; as it is, if it has none or cannot be read.

    The source is parsed by `ast` and never executed. The reader of the language checks the result.
    """
    if len(source) > limits.max_chars:
        return RewrittenSource(source)
    try:
        refuse_foreign(source, limits, IDIOM_WORDS)
        module = ast.parse(source, "<workflow>")
        steps = _PythonSteps(source, module, signatures)
        module.body = steps.module(module.body)
        if not steps.values.repairs:
            return RewrittenSource(source)
        text = ast.unparse(module) + "\n"
        lines = [one.lineno for one in _statements(ast.parse(text, "<workflow>"))]
    except (InvalidWorkflow, SyntaxError, RecursionError, MemoryError, ValueError):
        return RewrittenSource(source)
    places = [Position(one.lineno, one.col_offset + 1) for one in _statements(module)]
    starts = sorted(zip(lines, places, strict=True), key=lambda one: one[0])
    return RewrittenSource(text, tuple(steps.values.repairs), starts)


def _is_type(node: ast.expr) -> bool:
    """Return True for a type such as Literal["a"] or list[str]: it says nothing to a workflow."""
    inside = (ast.Subscript, ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.Load)
    return all(isinstance(one, inside) for one in ast.walk(node))


def _statements(module: ast.Module) -> list[ast.stmt]:
    return [node for node in ast.walk(module) if isinstance(node, ast.stmt)]


class _PythonSteps:
    """Rewrites the steps of one source."""

    def __init__(self, source: str, module: ast.Module, signatures: Signatures) -> None:
        names = {one.id for one in ast.walk(module) if isinstance(one, ast.Name)}
        self.values = PythonValues(source, signatures, names, _texts(module))

    def module(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the workflow alone: without imports, constants and the class around it."""
        constants: dict[str, ast.Constant] = {}
        kept: list[ast.stmt] = []
        for node in body:
            match node:
                case ast.Import(names=[ast.alias(name="asyncio", asname=None)]):
                    kept.append(node)
                case ast.Import() | ast.ImportFrom():
                    self.values.record(node, None)
                case ast.Assign(
                    targets=[ast.Name(id=name)], value=ast.Constant(value=str()) as text
                ):
                    constants[name] = text
                    self.values.record(node, None)
                case ast.Assign(targets=[ast.Name()], value=ast.Subscript() as alias) if _is_type(
                    alias
                ):
                    self.values.record(node, None)
                case _:
                    kept.append(node)
        inside = (one for node in kept for one in ast.walk(node) if isinstance(one, ast.Name))
        bound = {one.id for one in inside if isinstance(one.ctx, ast.Store)}
        self.values.constants = {name: constants[name] for name in constants.keys() - bound}
        return [self._workflow(node) for node in kept]

    def _workflow(self, node: ast.stmt) -> ast.stmt:
        if isinstance(node, ast.ClassDef):
            methods = {one.name: one for one in node.body if isinstance(one, _Function)}
            call = methods.get("__call__")
            if call is None or methods.keys() - {"__init__", "__call__"}:
                return node
            if "__init__" in methods:
                self.values.bind_operators(methods["__init__"])
            call.name, call.args.args = "workflow", call.args.args[1:]
            self.values.record(node, call)
            node = call
        if isinstance(node, _Function):
            for argument in node.args.args[1:]:
                if argument.arg == "entry_point":
                    node.args.args.remove(argument)
            node.body = self.block(node.body, in_loop=False) or node.body
        return node

    def block(self, nodes: Sequence[ast.stmt], *, in_loop: bool) -> list[ast.stmt]:
        """Return the steps of a block, rewritten; `in_loop`: it is the body of a loop."""
        found: list[ast.stmt] = []
        for at, node in enumerate(nodes):
            rest = nodes[at + 1 :]
            if in_loop and isinstance(node, ast.Continue):
                self.values.record(node, None)
                break
            if in_loop and isinstance(node, ast.If) and isinstance(node.body[-1], ast.Continue):
                self.values.record(node.body.pop(), None)
                node.orelse = [*node.orelse, *rest]
                return found + self._step(node, in_loop=True)
            found += self._step(node, in_loop=False)
        return found

    def _step(self, node: ast.stmt, *, in_loop: bool) -> list[ast.stmt]:
        around, self.values.hoisted = self.values.hoisted, []
        steps = self._rewritten(node, in_loop=in_loop)
        found = [*self.values.hoisted, *steps]
        self.values.hoisted = around
        return found

    def _plain(self, node: ast.stmt) -> ast.stmt | None:
        """Return a step without hints and costs; None for one without effect."""
        plain: ast.stmt
        match node:
            case (
                ast.Pass()
                | ast.AnnAssign(value=None)
                | ast.Expr(value=ast.Call(func=ast.Name(id="print")))
            ):
                if any(isinstance(one, ast.Await) for one in ast.walk(node)):
                    return node
                self.values.record(node, None)
                return None
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                plain = ast.Assign([target], value)
            case ast.Return(value=ast.Tuple(elts=[answer, cost])) if _is_cost(cost):
                plain = ast.Return(answer)
            case _:
                return node
        plain = ast.copy_location(plain, node)
        self.values.record(node, plain)
        return plain

    def _rewritten(self, given: ast.stmt, *, in_loop: bool) -> list[ast.stmt]:
        values = self.values
        node = self._plain(given)
        match node:
            case None:
                return []
            case ast.Assign(value=ast.IfExp() as choice) | ast.Return(value=ast.IfExp() as choice):
                return self._chosen(node, choice)
            case ast.Assign(value=value) | ast.AugAssign(value=value) | ast.Expr(value=value):
                node.value = values.value(value)
            case ast.Return(value=ast.expr() as value):
                node.value = values.value(value)
            case ast.If():
                return self._if(node, in_loop=in_loop)
            case ast.For():
                node.body = self.block(node.body, in_loop=True)
                return [node] if node.body else []
            case ast.AsyncFunctionDef() | ast.FunctionDef():
                node.body = self.block(node.body, in_loop=False) or node.body
        return [node]

    def _chosen(self, node: ast.Assign | ast.Return, choice: ast.IfExp) -> list[ast.stmt]:
        """Return the `if` step of `name = a if condition else b`."""
        sides: list[list[ast.stmt]] = []
        for value in (choice.body, choice.orelse):
            side = (
                ast.Assign(node.targets, value)
                if isinstance(node, ast.Assign)
                else ast.Return(value)
            )
            sides.append([ast.copy_location(side, node)])
        found = ast.copy_location(ast.If(choice.test, *sides), node)
        self.values.record(node, found)
        return self._if(found, in_loop=False)

    def _if(self, node: ast.If, *, in_loop: bool) -> list[ast.stmt]:
        node.test = self.values.truth(self.values.value(node.test))
        node.body = self.block(node.body, in_loop=in_loop)
        node.orelse = self.block(node.orelse, in_loop=in_loop)
        if node.body:
            return [node]
        if not node.orelse:
            return []
        opposite = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        node.test, node.body, node.orelse = opposite, node.orelse, []
        return [node]


def _is_cost(node: ast.expr) -> bool:
    """Return whether this is the cost that AFlow's workflows return after their answer."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    match node:
        case ast.Name(id="self") | ast.Constant(value=int() | float()):
            return True
    return False


def _texts(module: ast.Module) -> set[str]:
    """Return the names that the source binds to texts written out, and to nothing else."""
    texts: set[str] = set()
    others: set[str] = set()
    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                is_text = isinstance(value, ast.JoinedStr) or (
                    isinstance(value, ast.Constant) and isinstance(value.value, str)
                )
                (texts if is_text else others).add(name)
            case ast.For(target=ast.Name(id=name)):
                others.add(name)
    return texts - others
