"""Format: the final answer of a solution, alone."""

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
)
from assay_reward.workflows.operators.support.prompt_files import prompt_file


async def answer_format(context: OperatorContext, arguments: Arguments) -> Record:
    """Return the answer in the form in which it is compared."""
    values = {name: text_in(arguments, name) for name in ("problem", "solution")}
    return {"solution": (await context.ask(prompt_file("format"), values)).strip()}
