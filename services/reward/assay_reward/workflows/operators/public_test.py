"""Test: a program against the public tests of the task, with a bounded number of corrections.

The hidden tests never get here: an operator has the public part of the task alone.
"""

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
)
from assay_reward.workflows.operators.support.programs import whole_code
from assay_reward.workflows.operators.support.prompt_files import prompt_file
from assay_shared.repair.feedback import shown_case
from assay_shared.types import Status, TestReport

_MESSAGE = 1000


async def public_test(context: OperatorContext, arguments: Arguments) -> Record:
    """Return whether the last program passes all public tests, and this program.

    Without public tests nothing is tested: the result is false, and the program is unchanged.
    """
    problem = text_in(arguments, "problem")
    code = whole_code(text_in(arguments, "solution"))
    if not context.problem.cases:
        context.note("the task has no public tests")
        return {"result": False, "solution": code}
    report = await context.test_program(code)
    while report.status is not Status.ACCEPTED and context.retry():
        values = {"problem": problem, "solution": code, "feedback": _told(context, report)}
        code = whole_code(await context.ask(prompt_file("reflect"), values, temperature=0.7))
        report = await context.test_program(code)
    return {"result": report.status is Status.ACCEPTED, "solution": code}


def _told(context: OperatorContext, report: TestReport) -> str:
    """Return the first failed public test, and what the program did there."""
    for case, result in zip(context.problem.cases, report.cases, strict=False):
        if result.status not in (Status.ACCEPTED, None):
            assert result.status is not None
            said = result.message.strip()[-_MESSAGE:]
            return f"{shown_case(case)}\nStatus: {result.status.value}. {said}".strip()
    return f"Status: {report.status.value}."
