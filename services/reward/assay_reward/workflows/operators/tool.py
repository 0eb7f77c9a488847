"""Tool: a tool of the table, by its name. Tools run in the sandbox and ask no model."""

from collections.abc import Callable

from assay_reward.workflows.operators.support.faults import FaultKind, WorkflowFault
from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
)
from assay_reward.workflows.operators.support.programs import what_became, whole_code
from assay_reward.workflows.operators.support.texts import ReplyText, derived, is_reply
from assay_shared.types import Status

_OUTPUT = 4000


def _calculation(text: str) -> str:
    """Return a program that prints the value of a Python expression."""
    return f"from math import *\nprint(eval({text.strip()!r}))"


#: Each tool makes a program of its input. What the program prints is the tool's output.
TOOLS: dict[str, Callable[[str], str]] = {
    "calculate": _calculation,
    "python": whole_code,
}


async def tool(context: OperatorContext, arguments: Arguments) -> Record:
    """Return what the tool printed, and whether its program ended normally.

    Raises:
        WorkflowFault: no tool has this name.
    """
    name = text_in(arguments, "name").strip()
    if name not in TOOLS:
        known = ", ".join(sorted(TOOLS))
        raise WorkflowFault(FaultKind.VALUE, f"no tool is called {name[:40]!r}; known: {known}")
    given = text_in(arguments, "input")
    program = derived(TOOLS[name](given), given)
    result = await context.run_program(program)
    done = result.status is Status.ACCEPTED
    output = result.stdout.strip()[-_OUTPUT:] if done else what_became(result)
    # What a program of the workflow prints is the workflow's own, even with a reply in it.
    is_found = is_reply(program) or is_reply(given)
    return {"output": ReplyText(output) if is_found else output, "succeeded": done}
