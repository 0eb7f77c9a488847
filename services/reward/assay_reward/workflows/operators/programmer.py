"""Programmer: an answer by computing. The executor writes a program and the sandbox runs it."""

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
)
from assay_reward.workflows.operators.support.programs import what_became, whole_code
from assay_reward.workflows.operators.support.prompt_files import prompt_file
from assay_reward.workflows.operators.support.texts import ReplyText
from assay_shared.types import Status

#: Of a program's output, the end counts: the prompt asks for the answer there.
_OUTPUT = 4000


async def programmer(context: OperatorContext, arguments: Arguments) -> Record:
    """Return the last program and its output; an empty output if no program printed anything.

    A program that fails is the executor's answer, and no fault of the sandbox.
    """
    problem, analysis = text_in(arguments, "problem"), text_in(arguments, "analysis")
    code, feedback = "", "There was none."
    temperature, tries = 0.0, 0
    while tries == 0 or context.retry():
        values = {"problem": problem, "analysis": analysis or "none", "feedback": feedback}
        reply = await context.ask(prompt_file("programmer"), values, temperature=temperature)
        temperature, tries = 0.7, tries + 1
        code = whole_code(reply)
        result = await context.run_program(code)
        output = result.stdout.strip()
        if result.status is Status.ACCEPTED and output:
            return {"code": code, "output": ReplyText(output[-_OUTPUT:])}
        feedback = f"{code}\n\n{what_became(result)}"
    context.note(f"no program of {tries} printed an answer")
    return {"code": code, "output": ReplyText("")}
