"""Programs in answers, and their test reports."""

from pydantic import ValidationError

from assay_reward.instruments import ComponentUsage
from assay_shared.answers.whole_program import whole_program
from assay_shared.errors import InvalidInput, SandboxFault
from assay_shared.interfaces import Sandbox
from assay_shared.settings.run_file import Config
from assay_shared.types import Cost, Limits, Status, Task, TestReport, TestRequest


def has_tests(task: Task, options: Config) -> None:
    """Raise InvalidInput for a task without tests, of mixed kinds, or with other limits."""
    if not task.tests:
        raise InvalidInput(f"task {task.id} has no tests to run", field="task.tests")
    kinds = sorted({case.kind for case in task.tests})
    if len(kinds) > 1:
        raise InvalidInput(
            f"task {task.id} has tests of several kinds: {', '.join(kinds)}",
            field="task.tests",
            hint="all tests of a task are of one kind",
        )
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
