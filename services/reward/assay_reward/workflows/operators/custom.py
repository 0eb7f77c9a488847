"""Custom: the workflow's own instruction on a text."""

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
)
from assay_reward.workflows.operators.support.prompt_files import prompt_file

#: Equal calls are samples that can differ; otherwise an ensemble of them is a single draw.
_TEMPERATURE = 0.7


async def custom(context: OperatorContext, arguments: Arguments) -> Record:
    """Return the executor's reply to the instruction and the text."""
    values = {name: text_in(arguments, name) for name in ("input", "instruction")}
    return {"response": await context.ask(prompt_file("custom"), values, temperature=_TEMPERATURE)}
