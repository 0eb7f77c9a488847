"""Checks a tree before it runs: operators, parameters, fields, types, names, returns, cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay_reward.workflows.language.assignment import flow_of, problem_of
from assay_reward.workflows.language.limits import (
    DEFAULT_LIMITS,
    CostBound,
    WorkflowLimits,
    bound_of,
    costs_over,
)
from assay_reward.workflows.language.problems import InvalidWorkflow, Problem
from assay_reward.workflows.language.signatures import OPERATORS, Signatures
from assay_reward.workflows.language.step_types import type_problems
from assay_reward.workflows.language.tree import Workflow


@dataclass(frozen=True, slots=True)
class CheckedWorkflow:
    """A tree with all its problems (none: it may run) and the largest cost of a run."""

    tree: Workflow
    problems: tuple[Problem, ...]
    bound: CostBound

    @property
    def valid(self) -> bool:
        """True if the workflow may run."""
        return not self.problems

    def or_refuse(self) -> Workflow:
        """Return the tree.

        Raises:
            InvalidWorkflow: it has problems.
        """
        if self.problems:
            raise InvalidWorkflow(self.problems)
        return self.tree


def check_tree(
    tree: Workflow,
    signatures: Signatures = OPERATORS,
    limits: WorkflowLimits = DEFAULT_LIMITS,
    known: Sequence[Problem] = (),
) -> CheckedWorkflow:
    """Return a tree of a parser with its problems, in the order of the source.

    `known` are problems that the parser found and went past.
    """
    flow = flow_of(tree)
    bound = bound_of(tree, signatures)
    found = [
        *known,
        *type_problems(tree, signatures),
        *(problem_of(read, tree) for read in flow.unset[: limits.max_problems]),
        *flow.problems,
        *costs_over(bound, limits),
    ]
    return CheckedWorkflow(tree, _in_order(found, limits.max_problems), bound)


def _in_order(problems: Sequence[Problem], limit: int) -> tuple[Problem, ...]:
    places = {(problem.position, problem.kind, problem.message): problem for problem in problems}
    ordered = sorted(
        places.values(), key=lambda one: (one.position.line, one.position.column, one.kind)
    )
    return tuple(ordered[:limit])
