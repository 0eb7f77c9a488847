"""The sandbox: bounded slots, one program a slot, and the verdicts on them."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

from assay_sandbox.cases import ask, run_cases, worst_grading
from assay_sandbox.host import Host
from assay_sandbox.isolation import open_pool
from assay_sandbox.languages import find_language
from assay_sandbox.output import same_output
from assay_sandbox.pool import Pool
from assay_sandbox.program import Records, Source, status_of
from assay_sandbox.run import Ending, Plan, Run
from assay_sandbox.settings import SandboxSettings
from assay_shared.admission import Gate
from assay_shared.errors import InvalidInput
from assay_shared.metrics import LATENCY_BUCKETS_S
from assay_shared.together import together
from assay_shared.types import (
    CaseResult,
    ExecutionRequest,
    ExecutionResult,
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
        self.rebuilt = Counter(
            "assay_sandbox_slot_rebuilds_total",
            "Slots built anew after one was lost or used up.",
            registry=registry,
        )


class LocalSandbox:
    """Implements `assay_shared.interfaces.Sandbox` on this host, between `open` and `close`."""

    def __init__(self, settings: SandboxSettings, registry: CollectorRegistry) -> None:
        self._settings = settings
        self._gate = Gate(2 * settings.sandbox_slots, settings.sandbox_max_waiting)
        self._metrics = SandboxMetrics(registry)
        self._pool: Pool

    async def open(self) -> None:
        """Build the slots and try to break out of them.

        Raises:
            ConfigError: this host does not grant the least isolation that is asked for.
        """
        self._pool = await open_pool(self._settings, self._metrics.rebuilt)

    async def close(self) -> None:
        await self._pool.close()

    @property
    def isolation(self) -> str:
        return self._pool.isolation

    @property
    def host(self) -> Host:
        return self._pool.host

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
        questions = ask(request.cases, hackable=request.hackable)
        async with self._gate.enter():
            results = await (
                self._stdin_cases(request)
                if kind == "stdin"
                else run_cases(self._play, request, questions)
            )
        for result in results:
            if result.status is not None:
                self._metrics.programs.labels(request.language, result.status).inc()
        failures = (r.status for r in results if r.status not in (Status.ACCEPTED, None))
        return TestReport(
            status=next(failures, Status.ACCEPTED),
            cases=tuple(results),
            grading=worst_grading(questions),
            isolation=self.isolation,
        )

    async def _run(self, source: Source, stdin: str) -> ExecutionResult:
        records = Records()
        ending = await self._play(source.plan(stdin), lambda _, line: records.take(line))
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
            peak_memory_bytes=ending.peak_memory_bytes,
            message=message,
            isolation=self.isolation,
        )
        self._metrics.programs.labels(source.language, result.status).inc()
        return result

    async def _play(self, plan: Plan, on_record: Callable[[Run, bytes], None]) -> Ending:
        return await self._pool.play(plan, on_record, self._metrics.wait_s.observe)

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
        if status is Status.ACCEPTED and not same_output(result.stdout, case):
            status, message = Status.WRONG_ANSWER, f"printed {result.stdout[:200]!r}"
        return CaseResult(status=status, message=message, wall_time_s=result.wall_time_s)
