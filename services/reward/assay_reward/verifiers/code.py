"""Programs, judged by the task's tests in the sandbox."""

import re

from assay_reward.measurement import Measured, Sitting, each
from assay_shared.errors import InvalidInput, SandboxFault
from assay_shared.types import Failure, Status, Task, TestReport, TestRequest

_FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_LAST_FUNCTION = re.compile(r"^def (\w+)\(", re.MULTILINE)


async def pass_ratio(sitting: Sitting) -> list[Measured | Failure]:
    """The share of tests passed."""
    return [_measure(report, dense=True) for report in await _reports(sitting)]


async def accepted(sitting: Sitting) -> list[Measured | Failure]:
    """1 if all tests pass, else 0."""
    return [_measure(report, dense=False) for report in await _reports(sitting)]


def _measure(report: TestReport | Failure, *, dense: bool) -> Measured | Failure:
    if isinstance(report, Failure):
        return report
    value = report.pass_ratio if dense else float(report.status is Status.ACCEPTED)
    return Measured(value, report.status, f"{report.num_passed}/{len(report.cases)} tests passed")


async def _reports(sitting: Sitting) -> list[TestReport | Failure]:
    if not sitting.task.tests:
        raise InvalidInput(f"task {sitting.task.id} has no tests to run", field="task.tests")
    return await sitting.test_reports(_test_all)


async def _test_all(sitting: Sitting) -> list[TestReport | Failure]:
    async def test(answer: str) -> TestReport:
        program = whole_program(sitting.task, answer)
        report = await sitting.instruments.sandbox.test(
            TestRequest(code=program, cases=sitting.task.tests)
        )
        if any(case.status is Status.SANDBOX_ERROR for case in report.cases):
            raise SandboxFault("the sandbox failed on a test")
        return report

    return await each(sitting, test, "sandbox")


def whole_program(task: Task, answer: str) -> str:
    """The answer as a program: out of its fence, and after the task's prefix.

    An answer that defines the prefix's last function anew stands after a stub of it; any other
    is the rest of that function.
    """
    fenced = _FENCE.search(answer)
    code = fenced.group(1) if fenced else answer
    if not task.code_prefix:
        return code
    wanted = _LAST_FUNCTION.findall(task.code_prefix)
    if wanted and wanted[-1] in _LAST_FUNCTION.findall(code):
        return f"{task.code_prefix.rstrip()}\n    pass\n\n{code}"
    return task.code_prefix + code
