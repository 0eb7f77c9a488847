"""Format: the final answer of a solution, alone."""

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
)
from assay_reward.workflows.operators.support.prompt_files import prompt_file
from assay_reward.workflows.operators.support.texts import ReplyText


async def answer_format(context: OperatorContext, arguments: Arguments) -> Record:
    """Return the answer in the form in which it is compared."""
    values = {name: text_in(arguments, name) for name in ("problem", "solution")}
    reply = await context.ask(prompt_file("format"), values)
    return {"solution": ReplyText(reply.strip())}
