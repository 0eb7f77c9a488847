"""CustomCodeGenerate: a program for the task, under the workflow's own instruction."""

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
)
from assay_reward.workflows.operators.support.programs import whole_code
from assay_reward.workflows.operators.support.prompt_files import prompt_file

_TEMPERATURE = 0.7


async def custom_code_generate(context: OperatorContext, arguments: Arguments) -> Record:
    """Return the program of the executor's reply, without its fence."""
    values = {name: text_in(arguments, name) for name in ("problem", "instruction")}
    reply = await context.ask(prompt_file("code_generate"), values, temperature=_TEMPERATURE)
    return {"response": whole_code(reply)}
