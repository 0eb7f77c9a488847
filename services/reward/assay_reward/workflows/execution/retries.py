"""The retries inside operators: how many of them the budgets of a run hold, known before it runs.

An executor that writes bad code must not spend the budgets of a workflow. So the number of retries
follows from the tree alone: with all of them, no run leaves its budgets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.execution.interpreter import MAX_NESTING
from assay_reward.workflows.language.tree import (
    Branch,
    If,
    Loop,
    Node,
    OperatorCall,
    Parallel,
    Statement,
    Workflow,
    walk,
)
from assay_reward.workflows.operators.support.operator import Operator, OperatorUse


@dataclass(frozen=True, slots=True)
class RunBound:
    """The largest numbers of calls, programs, and calls and programs in a chain, of any run."""

    calls: int = 0
    programs: int = 0
    depth: int = 0

    def then(self, other: "RunBound") -> "RunBound":
        """Return the bound of two parts, one after the other."""
        return RunBound(
            self.calls + other.calls, self.programs + other.programs, self.depth + other.depth
        )

    def beside(self, other: "RunBound") -> "RunBound":
        """Return the bound of two parts at the same time."""
        both = self.then(other)
        return RunBound(both.calls, both.programs, max(self.depth, other.depth))

    def or_else(self, other: "RunBound") -> "RunBound":
        """Return the larger of each number."""
        return RunBound(
            max(self.calls, other.calls),
            max(self.programs, other.programs),
            max(self.depth, other.depth),
        )

    def times(self, number: int) -> "RunBound":
        """Return the bound of this many passes."""
        return RunBound(self.calls * number, self.programs * number, self.depth * number)

    def fits(self, budgets: RunBudgets) -> bool:
        """Return True if a run of this size keeps its budgets."""
        return (
            self.calls <= budgets.calls
            and self.programs <= budgets.programs
            and self.depth <= budgets.depth
        )


_UNKNOWN: Final = OperatorUse(calls=1)


def run_bound(tree: Workflow, operators: Mapping[str, Operator], retries: int = 0) -> RunBound:
    """Return the bound of a run whose operators retry at most `retries` times in each call."""
    return _Bounds(operators, retries).block(tree.body)


def retries_within(tree: Workflow, operators: Mapping[str, Operator], budgets: RunBudgets) -> int:
    """Return how often an operator may retry in each call, so that every run keeps its budgets.

    A workflow that can leave its budgets without any retry has none.
    """
    most = max((one.use.retries for one in operators.values()), default=0)
    fitting = (
        number for number in range(most, 0, -1) if run_bound(tree, operators, number).fits(budgets)
    )
    return next(fitting, 0)


class _Bounds:
    def __init__(self, operators: Mapping[str, Operator], retries: int) -> None:
        self._operators = operators
        self._retries = retries

    def block(self, steps: Sequence[Statement], nesting: int = 0) -> RunBound:
        found = RunBound()
        if nesting > MAX_NESTING:  # the interpreter ends here
            return found
        for step in steps:
            found = found.then(self._step(step, nesting + 1))
        return found

    def _step(self, step: Statement, nesting: int) -> RunBound:
        match step:
            case If(then=then, otherwise=otherwise):
                return self.block(then, nesting).or_else(self.block(otherwise, nesting))
            case Loop(times=times, body=body):
                return self.block(body, nesting).times(times)
            case Parallel(branches=branches):
                found = RunBound()
                for branch in branches:
                    found = found.beside(self._branch(branch, nesting))
                return found
            case _:
                return self._calls(step)

    def _branch(self, branch: Branch, nesting: int) -> RunBound:
        return self.block(branch.body, nesting).then(self._calls(branch.result))

    def _calls(self, node: Node) -> RunBound:
        found = RunBound()
        for one in walk(node):
            if isinstance(one, OperatorCall):
                found = found.then(self._call(one))
        return found

    def _call(self, call: OperatorCall) -> RunBound:
        operator = self._operators.get(call.operator)
        use = _UNKNOWN if operator is None else operator.use
        first = RunBound(use.calls, use.programs, use.depth)
        return first.then(RunBound(1, 1, 2).times(min(self._retries, use.retries)))
