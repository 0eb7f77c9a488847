"""The sandbox: bounded slots, one program a slot, and the verdicts on them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram

from assay_sandbox import host as hosts
from assay_sandbox.cases import run_cases
from assay_sandbox.languages import find_language
from assay_sandbox.process import Process, become_subreaper
from assay_sandbox.program import Launcher, Records, Source, status_of
from assay_sandbox.settings import SandboxSettings
from assay_sandbox.values import same_output
from assay_shared.admission import Gate
from assay_shared.errors import InvalidInput
from assay_shared.metrics import LATENCY_BUCKETS_S
from assay_shared.together import together
from assay_shared.types import (
    CaseResult,
    ExecutionRequest,
    ExecutionResult,
    Grading,
    Status,
    StdinCase,
    TestReport,
    TestRequest,
)


class SandboxMetrics:
    """What programs did here."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.programs = Counter(
            "assay_sandbox_programs_total",
            "Programs run, by how they ended.",
            ["language", "status"],
            registry=registry,
        )
        self.wait_s = Histogram(
            "assay_sandbox_wait_seconds",
            "Time a program waited for a slot.",
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )


class LocalSandbox:
    """Implements `assay_shared.interfaces.Sandbox` on this host."""

    def __init__(self, settings: SandboxSettings, registry: CollectorRegistry) -> None:
        """Raises ConfigError where no program can be run."""
        self.host = hosts.examine(settings)
        if self.host.first_uid is not None:
            become_subreaper()
        self._launcher = Launcher(self.host, settings.sandbox_work_folder)
        self._gate = Gate(2 * settings.sandbox_slots, settings.sandbox_max_waiting)
        self._free_slots: asyncio.Queue[int] = asyncio.Queue()
        for slot in range(settings.sandbox_slots):
            self._free_slots.put_nowait(slot)
        self._metrics = SandboxMetrics(registry)

    def close(self) -> None:
        """Give the slots' users back."""
        if self.host.claim is not None:
            self.host.claim.close()

    async def execute(self, request: ExecutionRequest) -> ExecutionResult:
        """Run a program once.

        Raises:
            InvalidInput: a language this host does not have.
            Overloaded: too many requests wait already.
            SandboxFault: the program could not be run; it is not to blame.
        """
        find_language(request.language)
        async with self._gate.enter():
            source = Source(request.code, request.language, request.limits)
            return await self._run(source, request.stdin)

    async def test(self, request: TestRequest) -> TestReport:
        """Judge a program by its cases; raises as `execute` does."""
        find_language(request.language)
        kind = request.cases[0].kind
        if kind != "stdin" and request.language != "python":
            raise InvalidInput(f"{kind} cases need python, not {request.language}", field="cases")
        async with self._gate.enter():
            results = await (
                self._stdin_cases(request) if kind == "stdin" else self._in_process_cases(request)
            )
        for result in results:
            if result.status is not None:
                self._metrics.programs.labels(request.language, result.status).inc()
        failures = (r.status for r in results if r.status not in (Status.ACCEPTED, None))
        return TestReport(
            status=next(failures, Status.ACCEPTED),
            cases=tuple(results),
            grading=Grading.IN_PROCESS if kind == "assert" else Grading.OUTSIDE,
            isolation=hosts.ISOLATION,
        )

    async def _run(self, source: Source, stdin: str) -> ExecutionResult:
        records = Records()

        def on_record(_: Process, line: bytes) -> None:
            records.take(line)

        async with self._slot() as slot:
            with self._launcher.folder(slot) as folder:
                process = self._launcher.start(
                    slot, folder, source, stdin=_encode(stdin), on_record=on_record
                )
                ending = await process.finish()
        status, message = status_of(ending, records, source.limits)
        if status is None and ending.cpu_time_s > source.limits.cpu_time_s:
            status, message = Status.TIME_LIMIT, f"{ending.cpu_time_s:.2f} s of CPU time"
        result = ExecutionResult(
            status=status or Status.ACCEPTED,
            stdout=ending.stdout.decode(errors="replace"),
            stderr=ending.stderr.decode(errors="replace"),
            exit_code=ending.exit_code,
            cpu_time_s=ending.cpu_time_s,
            wall_time_s=ending.wall_time_s,
            peak_memory_bytes=records.peak_memory_bytes,
            message=message,
            isolation=hosts.ISOLATION,
        )
        self._metrics.programs.labels(source.language, result.status).inc()
        return result

    async def _stdin_cases(self, request: TestRequest) -> list[CaseResult]:
        source = Source(request.code, request.language, request.limits)
        cases = [case for case in request.cases if isinstance(case, StdinCase)]
        if not request.stop_on_first_failure:
            return await together(self._stdin_case(source, case) for case in cases)
        results: list[CaseResult] = []
        for case in cases:
            results.append(await self._stdin_case(source, case))
            if results[-1].status is not Status.ACCEPTED:
                break
        return results + [CaseResult(status=None)] * (len(cases) - len(results))

    async def _stdin_case(self, source: Source, case: StdinCase) -> CaseResult:
        result = await self._run(source, case.stdin)
        status, message = result.status, result.message
        if status is Status.ACCEPTED and not same_output(result.stdout, case.expected_stdout):
            status, message = Status.WRONG_ANSWER, f"printed {result.stdout[:200]!r}"
        return CaseResult(status=status, message=message, wall_time_s=result.wall_time_s)

    async def _in_process_cases(self, request: TestRequest) -> list[CaseResult]:
        async with self._slot() as slot:
            return await run_cases(self._launcher, slot, request)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[int]:
        with self._metrics.wait_s.time():
            slot = await self._free_slots.get()
        try:
            yield slot
        finally:
            self._free_slots.put_nowait(slot)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
