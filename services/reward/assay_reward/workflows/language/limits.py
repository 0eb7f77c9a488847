"""Sizes that a workflow may have, and its largest cost, known before it runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from assay_reward.workflows.language.problems import Problem, ProblemKind, refuse
from assay_reward.workflows.language.signatures import Signatures
from assay_reward.workflows.language.tree import (
    Branch,
    If,
    Loop,
    Node,
    OperatorCall,
    Parallel,
    Position,
    Statement,
    Workflow,
    children,
    walk,
)


@dataclass(frozen=True, slots=True)
class WorkflowLimits:
    """Limits on a source and its tree; the defaults fit a reply of some 4,000 tokens."""

    max_chars: int = 16_384
    max_tokens: int = 4_000
    max_nodes: int = 2_000
    max_depth: int = 24
    max_loop_depth: int = 4
    max_times: int = 16
    max_branches: int = 16
    max_steps: int = 2_000
    max_operator_calls: int = 64
    max_model_calls: int = 256
    max_problems: int = 20


DEFAULT_LIMITS = WorkflowLimits()


@dataclass(frozen=True, slots=True)
class CostBound:
    """The largest numbers of steps, operator calls and executor calls of any run."""

    steps: int = 0
    operator_calls: int = 0
    model_calls: int = 0

    def __add__(self, other: "CostBound") -> "CostBound":
        return CostBound(
            self.steps + other.steps,
            self.operator_calls + other.operator_calls,
            self.model_calls + other.model_calls,
        )

    def times(self, number: int) -> "CostBound":
        """Return the bound of this many passes."""
        return CostBound(
            self.steps * number, self.operator_calls * number, self.model_calls * number
        )

    def or_else(self, other: "CostBound") -> "CostBound":
        """Return the larger of each number."""
        return CostBound(
            max(self.steps, other.steps),
            max(self.operator_calls, other.operator_calls),
            max(self.model_calls, other.model_calls),
        )


def bound_of(tree: Workflow, signatures: Signatures) -> CostBound:
    """Return the largest cost of any run; an unknown operator counts as one executor call."""
    return _block_bound(tree.body, signatures)


def _block_bound(steps: Sequence[Statement], signatures: Signatures) -> CostBound:
    bounds = [_step_bound(step, signatures) for step in steps]
    return sum(bounds, CostBound(steps=len(steps)))


def _step_bound(step: Statement, signatures: Signatures) -> CostBound:
    match step:
        case If(then=then, otherwise=otherwise):
            return _block_bound(then, signatures).or_else(_block_bound(otherwise, signatures))
        case Loop(times=times, body=body):
            return _block_bound(body, signatures).times(times)
        case Parallel(branches=branches):
            bounds = [_branch_bound(branch, signatures) for branch in branches]
            return sum(bounds, CostBound(steps=len(branches)))
        case _:
            return _calls_bound(step, signatures)


def _branch_bound(branch: Branch, signatures: Signatures) -> CostBound:
    return _block_bound(branch.body, signatures) + _calls_bound(branch.result, signatures)


def _calls_bound(node: Node, signatures: Signatures) -> CostBound:
    bound = CostBound()
    for found in walk(node):
        if isinstance(found, OperatorCall):
            signature = signatures.get(found.operator)
            bound += CostBound(0, 1, signature.model_calls if signature else 1)
    return bound


def refuse_long(source: str, limits: WorkflowLimits) -> None:
    """Check the source's length before anything reads it.

    Raises:
        InvalidWorkflow: it is too long.
    """
    if len(source) > limits.max_chars:
        raise refuse(
            ProblemKind.LIMIT,
            f"the workflow has more than {limits.max_chars} characters",
            Position(),
            "shorten it",
        )


def refuse_large(tree: Workflow, limits: WorkflowLimits) -> None:
    """Check nodes, depth, passes and branches of a tree that a parser has made.

    Raises:
        InvalidWorkflow: the tree exceeds a limit.
    """
    waiting: list[tuple[Node, int, int]] = [(tree, 0, 0)]
    num_nodes = 0
    while waiting:
        node, depth, loops = waiting.pop()
        num_nodes += 1
        if num_nodes > limits.max_nodes:
            _too_much("the workflow has too many parts", node, limits.max_nodes)
        if depth > limits.max_depth:
            _too_much("this part is nested too deeply", node, limits.max_depth)
        if isinstance(node, Loop):
            loops += 1
            if not 1 <= node.times <= limits.max_times:
                hint = f"from 1 to {limits.max_times} passes"
                what = f"a loop of {node.times} passes"
                raise refuse(ProblemKind.LIMIT, what, node.position, hint)
            if loops > limits.max_loop_depth:
                _too_much("too many loops inside each other", node, limits.max_loop_depth)
        if isinstance(node, Parallel) and not 2 <= len(node.branches) <= limits.max_branches:
            hint = f"from 2 to {limits.max_branches} branches"
            what = f"a parallel step of {len(node.branches)} branches"
            raise refuse(ProblemKind.LIMIT, what, node.position, hint)
        waiting.extend((child, depth + 1, loops) for child in children(node))


def _too_much(what: str, node: Node, limit: int) -> None:
    raise refuse(ProblemKind.LIMIT, what, node.position, f"at most {limit}")


def costs_over(bound: CostBound, limits: WorkflowLimits) -> list[Problem]:
    """Return a problem for each number of the bound that is over its limit."""
    numbers = (
        ("steps", bound.steps, limits.max_steps),
        ("operator calls", bound.operator_calls, limits.max_operator_calls),
        ("calls of the executor model", bound.model_calls, limits.max_model_calls),
    )
    return [
        Problem(
            ProblemKind.LIMIT,
            f"a run may make {number} {what}",
            Position(),
            f"at most {limit}: fewer passes or steps",
        )
        for what, number, limit in numbers
        if number > limit
    ]
