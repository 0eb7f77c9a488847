"""Turns `ast` statements into steps."""

import ast
from collections.abc import Sequence

from assay_reward.workflows.language.limits import WorkflowLimits
from assay_reward.workflows.language.names import bound_name
from assay_reward.workflows.language.problems import InvalidWorkflow, ProblemKind, refuse
from assay_reward.workflows.language.python_form.expressions import ExpressionConverter
from assay_reward.workflows.language.slips import Slip
from assay_reward.workflows.language.spelling.numbers import number_from
from assay_reward.workflows.language.tree import (
    Append,
    Assign,
    Branch,
    Break,
    If,
    Loop,
    Parallel,
    Position,
    Return,
    Statement,
    Variable,
    loop_of,
    text_of,
)

_Function = ast.AsyncFunctionDef | ast.FunctionDef
_GATHER = "a, b = await asyncio.gather(Operator(...), Operator(...))"
_RANGE = "write for _ in range(3):"


def parameters_of(function: _Function) -> list[str]:
    """Return the names of a function's parameters; any but plain ones are shown as `*`."""
    arguments = function.args
    others = (arguments.posonlyargs, arguments.kwonlyargs, arguments.defaults)
    special = any(others) or arguments.vararg or arguments.kwarg or function.decorator_list
    return ["*"] if special else [argument.arg for argument in arguments.args]


class StepConverter:
    """Converts statements of one source."""

    def __init__(self, expressions: ExpressionConverter, limits: WorkflowLimits) -> None:
        self._read = expressions
        self._limits = limits
        self._depth = 0

    def function(
        self, function: _Function, body: Sequence[ast.stmt] | None = None
    ) -> tuple[Statement, ...]:
        """Return the steps of a function, or of this part of it; its docstring is left out."""
        if isinstance(function, ast.FunctionDef):
            position = self._read.position(function)
            self._read.slips.append(Slip("async", position))
        first = function.body[0]
        if first.lineno <= function.lineno:
            raise self._read.refused(first, "a step stands on the line of def", "start a new line")
        body = function.body if body is None else body
        match first:
            case ast.Expr(value=ast.Constant(value=str())):
                body = body[1:]
        return self._block(body)

    def _block(self, nodes: Sequence[ast.stmt]) -> tuple[Statement, ...]:
        self._depth += 1
        if nodes and self._depth > self._limits.max_depth:
            hint = f"at most {self._limits.max_depth} levels"
            position = self._read.position(nodes[0])
            raise refuse(ProblemKind.LIMIT, "blocks nested too deeply", position, hint)
        steps: list[Statement] = []
        waiting: list[_Function] = []
        for node in nodes:
            if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
                waiting.append(node)
                continue
            gathered = _gathered(node)
            if gathered is not None:
                steps.append(self._parallel(node, *gathered, waiting))
                waiting = []
            elif waiting:
                raise self._unused(waiting[0])
            else:
                steps.append(self._step(node))
        if waiting:
            raise self._unused(waiting[0])
        self._depth -= 1
        return tuple(steps)

    def _unused(self, function: _Function) -> InvalidWorkflow:
        what = f"asyncio.gather does not follow {function.name}"
        return self._read.refused(function, what, _GATHER)

    def _step(self, node: ast.stmt) -> Statement:
        at = self._read.position(node)
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return Assign(bound_name(name, at), self._read.value_or_call(value), position=at)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                return self._increase(bound_name(name, at), value, at)
            case ast.Expr(value=ast.expr() as value):
                return self._append(value, at)
            case ast.Return(value=ast.expr() as value):
                return Return(self._read.expression(value), position=at)
            case ast.Break():
                return Break(position=at)
            case ast.If(test=test, body=body, orelse=orelse):
                condition = self._read.expression(test)
                return If(condition, self._block(body), self._block(orelse), position=at)
            case ast.For():
                return self._loop(node, at)
            case _:
                what = f"this {type(node).__name__} is not part of the language"
                hint = "steps are name = ..., if, for _ in range(n), asyncio.gather and return"
                raise self._read.refused(node, what, hint)

    def _increase(self, name: str, value: ast.expr, at: Position) -> Statement:
        """Return the step of `name += value`: of a list `[text]`, or of a text."""
        if isinstance(value, ast.List):
            if len(value.elts) != 1:
                raise self._read.refused(value, "one text is added at a time", "+= [text]")
            return Append(name, self._read.expression(value.elts[0]), position=at)
        parts = [Variable(name, position=at), *self._read.parts(value)]
        return Assign(name, text_of(parts, at), position=at)

    def _append(self, value: ast.expr, at: Position) -> Append:
        match value:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[item], keywords=[]
            ):
                return Append(bound_name(name, at), self._read.expression(item), position=at)
        raise self._read.refused(value, "this step has no effect", "bind the result: name = ...")

    def _loop(self, node: ast.For, at: Position) -> Loop:
        if node.orelse:
            raise self._read.refused(
                node.orelse[0], "a loop has no else", "write it after the loop"
            )
        if not isinstance(node.target, ast.Name):
            raise self._read.refused(node.target, "a loop counts with one name", _RANGE)
        match node.iter:
            case ast.Call(
                func=ast.Name(id="range"), args=[ast.Constant(value=int(times))], keywords=[]
            ) if not isinstance(times, bool):
                number_from(repr(times), at)
            case _:
                what = "a loop needs its number of passes"
                raise self._read.refused(node.iter, what, _RANGE)
        name = node.target.id
        index = None if name == "_" else bound_name(name, self._read.position(node.target))
        return loop_of(times, index, None, self._block(node.body), position=at)

    def _parallel(
        self,
        node: ast.stmt,
        targets: Sequence[ast.expr],
        call: ast.Call,
        awaited: bool,
        functions: Sequence[_Function],
    ) -> Parallel:
        if not awaited:
            self._read.slips.append(Slip("await", self._read.position(call)))
        if len(targets) != len(call.args) or call.keywords:
            what = f"{len(call.args)} branches for {len(targets)} names"
            raise self._read.refused(node, what, _GATHER)
        known = {function.name: function for function in functions}
        branches = []
        for target, value in zip(targets, call.args, strict=True):
            if not isinstance(target, ast.Name):
                raise self._read.refused(target, "a branch's result has a name", _GATHER)
            name = bound_name(target.id, self._read.position(target))
            branches.append(self._branch(name, value, known))
        if known or len(functions) != len({function.name for function in functions}):
            raise self._unused(functions[0])
        first = functions[0] if functions else node
        return Parallel(tuple(branches), position=self._read.position(first))

    def _branch(self, name: str, value: ast.expr, known: dict[str, _Function]) -> Branch:
        """Return a branch: a call of an operator, or of a function, which is taken from `known`."""
        at = self._read.position(value)
        match value:
            case ast.Call(func=ast.Name(id=function), args=[], keywords=[]) if function in known:
                return self._function_branch(name, known.pop(function), at)
            case ast.Call():
                return Branch(name, (), self._read.call(value), position=at)
            case ast.Await():
                raise self._read.refused(value, "await stands inside gather", "leave it out")
            case _:
                raise self._read.refused(value, "a branch is a call", _GATHER)

    def _function_branch(self, name: str, function: _Function, at: Position) -> Branch:
        if parameters_of(function):
            what = f"{function.name} has parameters"
            raise self._read.refused(function, what, "it knows the names of the workflow")
        last = function.body[-1]
        if not isinstance(last, ast.Return) or last.value is None:
            raise self._read.refused(last, "a branch ends with return", "return its result")
        body = self.function(function, function.body[:-1])
        return Branch(name, body, self._read.value_or_call(last.value), position=at)


def _gathered(node: ast.stmt) -> tuple[Sequence[ast.expr], ast.Call, bool] | None:
    """Return targets, the call of `asyncio.gather`, and whether it is awaited."""
    match node:
        case ast.Assign(targets=[target], value=ast.Await(value=ast.Call() as call)):
            awaited = True
        case ast.Assign(targets=[target], value=ast.Call() as call):
            awaited = False
        case _:
            return None
    match call.func:
        case ast.Attribute(value=ast.Name(id="asyncio"), attr="gather"):
            targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            return targets, call, awaited
    return None
