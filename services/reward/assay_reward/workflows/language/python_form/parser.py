"""Reads the Python form, in AFlow's shape. The source is parsed by `ast` and never executed.

async def workflow(problem):
    draft = await Custom(input=problem, instruction="Solve it step by step.")
    review = await Review(problem=problem, solution=draft["response"])
    if review["review_result"]:
        return draft["response"]
    ...
"""

import ast
from collections.abc import Sequence

from assay_reward.workflows.language.limits import (
    DEFAULT_LIMITS,
    WorkflowLimits,
    refuse_large,
    refuse_long,
)
from assay_reward.workflows.language.names import INPUT
from assay_reward.workflows.language.problems import InvalidWorkflow, ProblemKind, refuse
from assay_reward.workflows.language.python_form.expressions import ExpressionConverter
from assay_reward.workflows.language.python_form.scan import refuse_foreign
from assay_reward.workflows.language.python_form.steps import StepConverter, parameters_of
from assay_reward.workflows.language.slips import Slip
from assay_reward.workflows.language.spelling.strings import refuse_control_characters
from assay_reward.workflows.language.tree import Position, Workflow

_SHAPE = f"write async def workflow({INPUT}):"


def parse_python(source: str, limits: WorkflowLimits = DEFAULT_LIMITS) -> Workflow:
    """Return the tree of a workflow in Python form.

    Raises:
        InvalidWorkflow: with the first problem, or all missing words (`await`, `async`).
    """
    tree, slips = read_python(source, limits)
    if slips:
        raise InvalidWorkflow([slip.problem() for slip in slips])
    return tree


def read_python(
    source: str, limits: WorkflowLimits = DEFAULT_LIMITS
) -> tuple[Workflow, tuple[Slip, ...]]:
    """Return the tree, and the missing words that it was read without.

    Raises:
        InvalidWorkflow: with the first problem.
    """
    refuse_long(source, limits)
    source = source.replace("\r\n", "\n")
    refuse_control_characters(source)
    refuse_foreign(source, limits)
    module = _module(source)
    expressions = ExpressionConverter(source, limits)
    function = _workflow_of(module.body, expressions)
    steps = StepConverter(expressions, limits).function(function)
    tree = Workflow(steps, position=Position(function.lineno, 1))
    refuse_large(tree, limits)
    return tree, tuple(expressions.slips)


def _module(source: str) -> ast.Module:
    try:
        return ast.parse(source, "<workflow>")
    except SyntaxError as error:
        position = Position(error.lineno or 1, max(1, error.offset or 1))
        raise refuse(ProblemKind.SYNTAX, error.msg, position, "this is not Python") from error
    except (RecursionError, MemoryError, ValueError) as error:
        what = "the workflow is nested too deeply to be read"
        raise refuse(ProblemKind.LIMIT, what, Position(), "write shorter steps") from error


def _workflow_of(
    body: Sequence[ast.stmt], expressions: ExpressionConverter
) -> ast.AsyncFunctionDef | ast.FunctionDef:
    """Return the one function of the source; `import asyncio` may stand before it."""
    found: list[ast.AsyncFunctionDef | ast.FunctionDef] = []
    for node in body:
        match node:
            case ast.Import(names=[ast.alias(name="asyncio", asname=None)]):
                continue
            case ast.AsyncFunctionDef() | ast.FunctionDef() if not found:
                found.append(node)
            case _:
                what = "the workflow is one function, and nothing stands outside it"
                raise expressions.refused(node, what, _SHAPE)
    if not found:
        raise refuse(ProblemKind.SYNTAX, "there is no workflow", Position(), _SHAPE)
    function = found[0]
    if function.name != "workflow" or parameters_of(function) != [INPUT]:
        raise expressions.refused(function, "the function has another name or parameters", _SHAPE)
    return function
