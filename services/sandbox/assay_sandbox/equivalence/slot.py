"""Runs subjects in slots, of a sandbox in this process or of a service over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from assay_sandbox.equivalence.subjects import RunOutcome, Subject
from assay_shared.errors import AssayError, InvalidInput
from assay_shared.interfaces import Sandbox
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import AssertCase, ExecutionRequest, Limits, Status, StdinCase, TestRequest

#: In place of a status: the sandbox refuses the request.
REFUSED = "refused"
#: A status without a verdict: the case can only be judged by trusting the program.
UNGRADABLE = "ungradable"
#: A sandbox of this process raises these where a service would answer 500.
_DEFECTS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@asynccontextmanager
async def local_sandbox(num_slots: int) -> AsyncIterator[Sandbox]:
    """Yield an open sandbox in this process."""
    from prometheus_client import CollectorRegistry

    from assay_sandbox.sandbox import LocalSandbox
    from assay_sandbox.settings import SandboxSettings
    from assay_shared.settings.environment import read_settings

    settings = read_settings(SandboxSettings).model_copy(update={"sandbox_slots": num_slots})
    sandbox = LocalSandbox(settings, CollectorRegistry())
    await sandbox.open()
    try:
        yield sandbox
    finally:
        await sandbox.close()


@asynccontextmanager
async def remote_sandbox(url: str, limits: Limits) -> AsyncIterator[Sandbox]:
    """Yield a client of a service; its timeouts allow for the longest request."""
    from assay_shared.clients.http import Timeouts
    from assay_shared.clients.sandbox import SandboxClient
    from assay_shared.settings.environment import read_settings

    patience_s = 20 * limits.wall_time_s
    token = read_settings(ServiceSettings).token_of("sandbox")
    timeouts = Timeouts(read_s=patience_s, total_s=patience_s)
    async with SandboxClient(url, token=token, timeouts=timeouts) as client:
        yield client


class SlotPython:
    """Runs subjects in slots."""

    def __init__(self, sandbox: Sandbox, limits: Limits) -> None:
        self._sandbox = sandbox
        self._limits = limits

    async def run(self, subject: Subject) -> RunOutcome:
        """Run a subject and return the outcome; refusals and faults become statuses in it."""
        try:
            if subject.way == "script":
                return await self._execute(subject)
            return await self._test(subject)
        except (AssayError, *_DEFECTS) as error:
            status = REFUSED if isinstance(error, InvalidInput) else Status.SANDBOX_ERROR
            num_cases = max(1, len(subject.cases) + len(subject.tests))
            return RunOutcome((status,) * num_cases, messages=(f"{type(error).__name__}: {error}",))

    async def _execute(self, subject: Subject) -> RunOutcome:
        request = ExecutionRequest(code=subject.code, stdin=subject.stdin, limits=self._limits)
        result = await self._sandbox.execute(request)
        raw = result.raw_stdout
        return RunOutcome(
            statuses=(result.status,),
            exit_code=result.exit_code,
            stdout=result.stdout.encode() if raw is None else raw,
            stderr=result.stderr.encode(),
            cpu_time_s=result.cpu_time_s,
            messages=(result.message,),
        )

    async def _test(self, subject: Subject) -> RunOutcome:
        stdin_cases = [
            StdinCase(stdin=test.stdin, expected_stdout=test.expected_stdout)
            for test in subject.tests
        ]
        request = TestRequest(
            code=subject.code,
            cases=tuple(stdin_cases) or tuple(AssertCase(code=case) for case in subject.cases),
            hackable=subject.way != "assert outside",
            limits=self._limits,
        )
        report = await self._sandbox.test(request)
        return RunOutcome(
            statuses=tuple(str(case.status) for case in report.cases),
            cpu_time_s=max(case.cpu_time_s for case in report.cases),
            messages=tuple(case.message for case in report.cases),
            grading=report.grading,
        )
