"""Revise: a solution rewritten after comments."""

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
)
from assay_reward.workflows.operators.support.prompt_files import prompt_file


async def revise(context: OperatorContext, arguments: Arguments) -> Record:
    """Return the executor's improved solution."""
    values = {name: text_in(arguments, name) for name in ("problem", "solution", "feedback")}
    return {"solution": await context.ask(prompt_file("revise"), values)}
