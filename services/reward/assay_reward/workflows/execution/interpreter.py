"""The interpreter of a tree. It evaluates everything itself; no part of a workflow is Python."""

import asyncio
from dataclasses import dataclass
from typing import Final

from assay_reward.workflows.execution.expressions import ExpressionValues, RepairedValue, Value
from assay_reward.workflows.execution.session import CallContext, RunPlace, RunSession
from assay_reward.workflows.language.tree import (
    Append,
    Assign,
    Branch,
    Break,
    Expression,
    FirstValue,
    If,
    Loop,
    OperatorCall,
    Parallel,
    Return,
    Statement,
    Workflow,
)
from assay_reward.workflows.operators.support.faults import FaultKind, WorkflowFault
from assay_reward.workflows.operators.support.operator import Arguments, Operator
from assay_shared.runtime.gather import gather

#: Deeper trees are refused: each level takes some frames of Python's stack.
MAX_NESTING: Final = 60
#: Steps between two chances for other work on the event loop.
_PAUSE_EVERY: Final = 500


@dataclass(frozen=True)
class _Returned:
    """The end of the workflow."""

    text: str


_BREAK: Final = object()
_NEXT: Final = object()


class WorkflowInterpreter:
    """Interprets one run. Each branch has its names and its place; the session is common."""

    def __init__(self, session: RunSession, operators: dict[str, Operator]) -> None:
        self._session = session
        self._operators = operators
        self._values = ExpressionValues(session.usage)
        self._pause_at = _PAUSE_EVERY

    async def run(self, tree: Workflow) -> str:
        """Return the text that the workflow returns; `answer_of` reads it.

        Raises:
            WorkflowFault: the workflow spent a budget, misused a value, or ended without `return`.
            AssayError: the executor or the sandbox failed.
        """
        names: dict[str, Value] = {"problem": self._session.problem.text}
        ended = await self._block(tree.body, names, RunPlace("", self._session.trace.root), 0)
        if not isinstance(ended, _Returned):
            raise WorkflowFault(FaultKind.VALUE, "the workflow ended without a return")
        return ended.text

    async def _block(
        self,
        body: tuple[Statement, ...],
        names: dict[str, Value],
        place: RunPlace,
        nesting: int,
    ) -> object:
        """Run the statements; return how they ended. `names` and `place` change in place."""
        if nesting > MAX_NESTING:
            raise WorkflowFault(FaultKind.VALUE, f"more than {MAX_NESTING} nested statements")
        for number, statement in enumerate(body):
            await self._step()
            ended = await self._statement(statement, names, place, f"{number}", nesting)
            if ended is not _NEXT:
                return ended
        return _NEXT

    async def _step(self) -> None:
        """Charge a step, and let other work run after many of them."""
        usage = self._session.usage
        usage.take_steps()
        if usage.steps >= self._pause_at:
            self._pause_at = usage.steps + _PAUSE_EVERY
            await asyncio.sleep(0)

    async def _statement(
        self,
        statement: Statement,
        names: dict[str, Value],
        place: RunPlace,
        step: str,
        nesting: int,
    ) -> object:
        match statement:
            case FirstValue(name):
                names[name] = RepairedValue()
            case Assign(name, value):
                names[name] = await self._assigned(value, names, place, step)
            case Append(name, item):
                text = self._values.text(item, names)
                names[name] = self._values.appended(names.get(name, ()), text)
            case Parallel(branches):
                await self._parallel(branches, names, place, step, nesting)
            case If(condition, then, otherwise):
                chosen = then if self._values.is_true(condition, names) else otherwise
                inside = place.inside(step)
                ended = await self._block(chosen, names, inside, nesting + 1)
                place.depth = inside.depth
                return ended
            case Loop():
                return await self._loop(statement, names, place, step, nesting)
            case Break():
                return _BREAK
            case Return(value):
                return _Returned(self._values.text(value, names))
        return _NEXT

    async def _loop(
        self, loop: Loop, names: dict[str, Value], place: RunPlace, step: str, nesting: int
    ) -> object:
        for number in range(loop.times):
            await self._step()
            if loop.index is not None:
                names[loop.index] = number
            if loop.condition is not None and not self._values.is_true(loop.condition, names):
                break
            line = loop.position.line
            with self._session.part(place.part, "pass", f"{number + 1}", line) as part:
                inside = place.inside(f"{step}.{number}", part)
                ended = await self._block(loop.body, names, inside, nesting + 1)
                place.depth = inside.depth
            if ended is _BREAK:
                break
            if ended is not _NEXT:
                return ended
        return _NEXT

    async def _parallel(
        self,
        branches: tuple[Branch, ...],
        names: dict[str, Value],
        place: RunPlace,
        step: str,
        nesting: int,
    ) -> None:
        """Run all branches at the same time; the first error cancels the others."""
        self._session.usage.take_steps(len(branches))
        ended = await gather(
            self._branch(branch, dict(names), place, f"{step}.{number}", nesting)
            for number, branch in enumerate(branches)
        )
        for branch, (value, _) in zip(branches, ended, strict=True):
            names[branch.target] = value
        place.depth = max([place.depth, *(depth for _, depth in ended)])

    async def _branch(
        self, branch: Branch, names: dict[str, Value], place: RunPlace, step: str, nesting: int
    ) -> tuple[Value, int]:
        """Return the branch's result, and the length of its chain of calls."""
        line = branch.position.line
        with self._session.part(place.part, "branch", branch.target, line) as part:
            inside = place.inside(step, part)
            if await self._block(branch.body, names, inside, nesting + 1) is not _NEXT:
                raise WorkflowFault(FaultKind.VALUE, "a branch that ends the workflow or a loop")
            return await self._assigned(branch.result, names, inside, "result"), inside.depth

    async def _assigned(
        self, value: Expression | OperatorCall, names: dict[str, Value], place: RunPlace, step: str
    ) -> Value:
        if not isinstance(value, OperatorCall):
            return self._values.value(value, names)
        arguments = {one.name: self._values.plain(one.value, names) for one in value.arguments}
        return await self._call(value, arguments, place, step)

    async def _call(
        self, call: OperatorCall, arguments: Arguments, place: RunPlace, step: str
    ) -> Value:
        if call.operator not in self._operators:
            known = ", ".join(sorted(self._operators))
            raise WorkflowFault(
                FaultKind.VALUE,
                f"{call.position}: no operator is called {call.operator[:40]!r}; known: {known}",
            )
        operator = self._operators[call.operator]
        usage = self._session.usage
        usage.operators[call.operator] = usage.operators.get(call.operator, 0) + 1
        usage.operator_cost += operator.cost
        line = call.position.line
        with self._session.part(place.part, "operator", call.operator, line) as part:
            context = CallContext(self._session, place.inside(step, part), operator.use.retries)
            record = await operator.run(context, arguments)
            place.depth = context.place.depth
            part.reply = "\n".join(f"{name}: {value}" for name, value in record.items())
            return record
