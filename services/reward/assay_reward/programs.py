"""Programs in answers, and their test reports."""

import re

from pydantic import ValidationError

from assay_reward.instruments import ComponentUsage
from assay_shared.answers.extraction import fenced
from assay_shared.errors import InvalidInput, SandboxFault
from assay_shared.interfaces import Sandbox
from assay_shared.settings.run_file import Config
from assay_shared.text.reasoning import after_reasoning
from assay_shared.types import Cost, Limits, Status, Task, TestReport, TestRequest

_LAST_FUNCTION = re.compile(r"^def (\w+)\(", re.MULTILINE)


def has_tests(task: Task, options: Config) -> None:
    """Raise InvalidInput for a task without tests, or with other limits; a `Verifier.check`."""
    if not task.tests:
        raise InvalidInput(f"task {task.id} has no tests to run", field="task.tests")
    limits_of(task)


def limits_of(task: Task) -> Limits:
    """Return the limits of the task's check `limits`, else the sandbox's usual ones.

    Raises:
        InvalidInput: a limit cannot be used; names it.
    """
    try:
        return Limits.model_validate(task.checks.get("limits", {}))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(map(str, ("task.checks.limits", *first["loc"])))
        raise InvalidInput(first["msg"], field=name) from None


async def run_tests(
    sandbox: Sandbox, task: Task, answer: str, meter: ComponentUsage, *, forgeable: bool = True
) -> TestReport:
    """Return the report of the task's tests on an answer.

    Raises:
        SandboxFault: a test could not be run.
    """
    code = whole_program(task, answer)
    request = TestRequest(code=code, cases=task.tests, hackable=forgeable, limits=limits_of(task))
    report = await sandbox.test(request)
    meter.charge(Cost(sandbox_cpu_s=sum(case.cpu_time_s for case in report.cases)))
    if any(case.status is Status.SANDBOX_ERROR for case in report.cases):
        raise SandboxFault("the sandbox failed on a test")
    return report


def whole_program(task: Task, answer: str) -> str:
    """Return the answer's program: without its fence, after the task's prefix.

    If the answer defines the prefix's last function again, the prefix ends in a stub (`pass`).
    Otherwise the answer is the rest of this function.
    """
    answer = after_reasoning(answer)
    blocks = fenced(answer)
    code = blocks[0] if blocks else answer
    if not task.code_prefix:
        return code
    wanted = _LAST_FUNCTION.findall(task.code_prefix)
    if wanted and wanted[-1] in _LAST_FUNCTION.findall(code):
        return f"{task.code_prefix.rstrip()}\n    pass\n\n{code}"
    return task.code_prefix + code
