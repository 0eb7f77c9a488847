"""Programs, judged by the task's tests in the sandbox."""

import re
from dataclasses import dataclass

from assay_reward.measurement import Candidate, Measured, Meter, Verifier
from assay_shared.answers.extraction import fenced
from assay_shared.config import Config
from assay_shared.errors import InvalidInput, SandboxFault
from assay_shared.interfaces import Sandbox
from assay_shared.types import Cost, Grading, Status, Task, TestReport, TestRequest

_LAST_FUNCTION = re.compile(r"^def (\w+)\(", re.MULTILINE)


def has_tests(task: Task, options: Config) -> None:
    """A `Verifier.check`."""
    if not task.tests:
        raise InvalidInput(f"task {task.id} has no tests to run", field="task.tests")


class CodeOptions(Config):
    """`forgeable: false` makes tests ungradable, and so not passed, where only the program's own
    process could run them: what equals anything could pass them there."""

    forgeable: bool = True


async def run_tests(
    sandbox: Sandbox, task: Task, answer: str, meter: Meter, *, forgeable: bool = True
) -> TestReport:
    """What the task's tests say of an answer.

    Raises:
        SandboxFault: a test could not be run.
    """
    code = whole_program(task, answer)
    report = await sandbox.test(TestRequest(code=code, cases=task.tests, hackable=forgeable))
    meter.charge(Cost(sandbox_cpu_s=sum(case.cpu_time_s for case in report.cases)))
    if any(case.status is Status.SANDBOX_ERROR for case in report.cases):
        raise SandboxFault("the sandbox failed on a test")
    return report


@dataclass(frozen=True)
class RunTests:
    """`run_tests` of a candidate, once for all components that allow the same."""

    forgeable: bool = True

    async def __call__(self, candidate: Candidate) -> TestReport:
        """Raises as `run_tests`."""
        return await run_tests(
            candidate.instruments.sandbox,
            candidate.task,
            candidate.text,
            candidate.meter,
            forgeable=self.forgeable,
        )


def measured(report: TestReport, value: float) -> Measured:
    """The value beside what the tests said."""
    forgeable = ", in the program's own process" if report.grading is Grading.IN_PROCESS else ""
    passed = f"{report.num_passed}/{len(report.cases)} tests passed{forgeable}"
    return Measured(value, report.status, passed + _ungradable(report))


def _ungradable(report: TestReport) -> str:
    """How many tests could not be graded, and why the first could not; "" if all were."""
    reasons = [case.message for case in report.cases if case.status is Status.UNGRADABLE]
    return f"; {len(reasons)} ungradable: {reasons[0]}" if reasons else ""


async def _pass_ratio(candidate: Candidate, options: CodeOptions) -> Measured:
    """The share of tests passed."""
    report = await candidate.once(RunTests(options.forgeable))
    return measured(report, report.pass_ratio)


async def _accepted(candidate: Candidate, options: CodeOptions) -> Measured:
    """1 if all tests pass, else 0."""
    report = await candidate.once(RunTests(options.forgeable))
    return measured(report, float(report.status is Status.ACCEPTED))


def whole_program(task: Task, answer: str) -> str:
    """The answer as a program: out of its fence, and after the task's prefix.

    An answer that defines the prefix's last function anew stands after a stub of it; any other
    is the rest of that function.
    """
    blocks = fenced(answer)
    code = blocks[0] if blocks else answer
    if not task.code_prefix:
        return code
    wanted = _LAST_FUNCTION.findall(task.code_prefix)
    if wanted and wanted[-1] in _LAST_FUNCTION.findall(code):
        return f"{task.code_prefix.rstrip()}\n    pass\n\n{code}"
    return task.code_prefix + code


PASS_RATIO = Verifier(_pass_ratio, CodeOptions, has_tests)
ACCEPTED = Verifier(_accepted, CodeOptions, has_tests)
