"""The sandbox: runs programs in a bounded number of slots and judges them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from assay_sandbox.build import CompileFailed, Compiler
from assay_sandbox.execution.host import Host, is_faster_with_numpy
from assay_sandbox.execution.isolation import Slots
from assay_sandbox.execution.pairs import SlotPair
from assay_sandbox.execution.program import Program, to_result
from assay_sandbox.execution.runner import Runner
from assay_sandbox.grading.checkers import NAMED
from assay_sandbox.grading.in_process_cases import Graded, Question, ask, run_cases, worst_grading
from assay_sandbox.grading.stdin_cases import Judged, ReadyChecker, StdinJudge
from assay_sandbox.languages.languages import LANGUAGES
from assay_sandbox.languages.toolchain import Toolchain
from assay_sandbox.metrics import SandboxMetrics
from assay_sandbox.sessions.sessions import Sessions
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import InvalidInput, SandboxFault, Saturated
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.telemetry.context import client, request_id
from assay_shared.telemetry.tracing import span
from assay_shared.types import (
    CaseResult,
    Checker,
    Compilation,
    ExecutionRequest,
    ExecutionResult,
    ProgramRequest,
    SessionRequest,
    Status,
    StdinCase,
    TestReport,
    TestRequest,
)

#: The profile of the grader's slots for each profile of a program: numpy's values need numpy.
_GRADERS = {"std": "grader", "scientific": "scientific grader", "auto": "scientific grader"}


class LocalSandbox:
    """The `assay_shared.interfaces.Sandbox` of this host, usable between `open` and `close`."""

    def __init__(self, settings: SandboxSettings, registry: CollectorRegistry) -> None:
        self._settings = settings
        # A request stays in flight while its program sleeps: allow as many requests as slots.
        num_held = max(2 * settings.sandbox_slots, settings.max_slots)
        self._gate = FairLimiter(
            num_held,
            settings.sandbox_max_waiting,
            min_share=2 * settings.sandbox_slots,
            max_wait_s=settings.sandbox_max_wait_s,
            refusal=Saturated,
        )
        self._metrics = SandboxMetrics(registry)
        self._metrics.waiting.set_function(lambda: self.num_waiting)
        self._slots = Slots(settings, self._metrics.rebuilt)
        self._toolchain: Toolchain
        self._compiler: Compiler
        self.sessions: Sessions
        self.python_version = ""

    async def open(self) -> None:
        """Build the slots and try to break out of them.

        Raises:
            ConfigError: this host does not grant the minimum isolation, or a program can escape.
        """
        await self._slots.open()
        self._metrics.slots.set(self.num_slots)
        permits = self._slots.permits
        self._metrics.running.set_function(lambda: permits.num_running)
        self._metrics.sleeping.set_function(lambda: permits.num_resting)
        self._metrics.isolation.labels(self.isolation).info({})
        self._toolchain = self._slots.toolchain
        self.python_version = await asyncio.to_thread(self._toolchain.version_of, "python")
        self._compiler = Compiler(
            Runner(self._slots, self._metrics, "std"),
            self._toolchain,
            self._settings.sandbox_compile_cache_bytes,
            self._settings.sandbox_writable_bytes,
        )
        self.sessions = Sessions(self._settings, self._slots, self._build_session)

    async def close(self) -> None:
        await self.sessions.close()
        await self._slots.close()

    @property
    def isolation(self) -> str:
        return self._slots.isolation

    @property
    def num_slots(self) -> int:
        return self._slots.num_slots

    @property
    def num_running(self) -> int:
        """Number of programs and cells computing now."""
        return self._slots.permits.num_running

    @property
    def num_sleeping(self) -> int:
        """Number of running programs and cells idle now: they use no CPU time."""
        return self._slots.permits.num_resting

    def load(self) -> dict[str, int]:
        """Return the numbers of programs and cells running, sleeping and waiting now."""
        counts = (self.num_running, self.num_sleeping, self.num_waiting)
        return dict(zip(("running", "sleeping", "waiting"), counts, strict=True))

    @property
    def num_waiting(self) -> int:
        """Number of requests waiting for admission, and of programs waiting for a permit."""
        return self._gate.num_waiting + self._slots.permits.num_waiting

    @property
    def host(self) -> Host:
        return self._slots.host

    def languages(self) -> dict[str, str]:
        """Return the languages of this host with their versions."""
        return self._toolchain.versions()

    async def execute(self, request: ExecutionRequest) -> ExecutionResult:
        """Run a program once.

        Raises:
            InvalidInput: this host lacks the language or the profile.
            Saturated: too many requests wait already, or this request has waited for too long.
            SandboxFault: the program could not be run, and is not to blame.
        """
        try:
            async with self._built(request) as (program, compilation):
                run = await self._runner(request).run(program, request.stdin, request.fetch_files)
        except CompileFailed as failed:
            return self._compile_error(failed)
        return to_result(run, self.isolation, compilation, request.fetch_files)

    async def test(self, request: TestRequest) -> TestReport:
        """Judge a program by its cases and return the report; raises the errors of `execute`."""
        kind = request.cases[0].kind
        if kind != "stdin" and request.language != "python":
            raise InvalidInput(f"{kind} cases need python, not {request.language}", field="cases")
        questions = ask(request.cases, hackable=request.hackable)
        try:
            async with self._built(request) as (program, compilation):
                graded = await self._judge(request, program, questions)
        except CompileFailed as failed:
            compilation = failed.compilation
            graded = [Graded(failed.case_result)] * len(request.cases)
        results = [one.result for one in graded]
        self._metrics.count_cases(kind, results)
        failures = (r.status for r in results if r.status not in (Status.ACCEPTED, None))
        return TestReport(
            status=next(failures, Status.ACCEPTED),
            cases=tuple(results),
            grading=worst_grading(graded),
            compilation=compilation,
            isolation=self.isolation,
        )

    async def judge_stdin(self, request: TestRequest) -> list[tuple[CaseResult, ExecutionResult]]:
        """Return each stdin case's verdict and run, up to a stop; raises the errors of `test`."""
        try:
            async with self._built(request) as (program, compilation):
                judged = await self._judge_stdin(request, program)
        except CompileFailed as failed:
            return [(failed.case_result, self._compile_error(failed))]
        self._metrics.count_cases("stdin", [result for result, _ in judged])
        return [(result, to_result(run, self.isolation, compilation)) for result, run in judged]

    @asynccontextmanager
    async def _built(
        self, request: ProgramRequest
    ) -> AsyncIterator[tuple[Program, Compilation | None]]:
        """Admit a request, and yield its program ready to run.

        A request for a language missing on this host takes no place. Count refusals and our own
        faults.
        """
        language = self._toolchain.find(request.language)
        try:
            # From the place in the queue to the verdict.
            with span("sandbox.run", language=request.language, isolation=self.isolation):
                async with self._gate.enter(client(), request_id()):
                    yield await self._compiler.build(request, language)
        except Saturated:
            self._metrics.refused.inc()
            raise
        except SandboxFault:
            self._metrics.faults.inc()
            raise

    async def _judge(
        self, request: TestRequest, program: Program, questions: list[Question]
    ) -> list[Graded]:
        num_slots, stop = self.num_slots, request.stop_on_first_failure
        if questions:
            profile = _GRADERS[_profile(request)]
            grader = Runner(self._slots, self._metrics, profile, needs_permit=False)
            pair = SlotPair(self._runner(request), grader)
            return await run_cases(pair, program, questions, num_slots=num_slots, stop=stop)
        graded = [Graded(result) for result, _ in await self._judge_stdin(request, program)]
        return graded + [Graded(CaseResult(status=None))] * (len(request.cases) - len(graded))

    async def _judge_stdin(self, request: TestRequest, program: Program) -> list[Judged]:
        checker = await self._build_checker(request.checker) if request.checker else None
        cases = [case for case in request.cases if isinstance(case, StdinCase)]
        grader = Runner(self._slots, self._metrics, _GRADERS["std"])
        judge = StdinJudge(self._runner(request), program, checker, self.num_slots, grader)
        return await judge.judge(cases, stop=request.stop_on_first_failure)

    async def _build_checker(self, checker: Checker) -> ReadyChecker:
        request = _checker_program(checker)
        try:
            program, _ = await self._build_aside(request)
        except CompileFailed as failed:
            raise InvalidInput(failed.message, field="checker.code") from None
        return ReadyChecker(program, self._runner(request))

    async def _build_session(self, request: SessionRequest) -> Program:
        program, _ = await self._build_aside(
            ProgramRequest(code="", files=request.files, limits=request.limits)
        )
        return program

    async def _build_aside(self, request: ProgramRequest) -> tuple[Program, Compilation | None]:
        """Build the program of a checker or a session, without a place in the queue of requests."""
        return await self._compiler.build(request, self._toolchain.find(request.language))

    def _runner(self, request: ProgramRequest) -> Runner:
        return Runner(self._slots, self._metrics, _profile(request), request.language)

    def _compile_error(self, failed: CompileFailed) -> ExecutionResult:
        return ExecutionResult(
            status=Status.COMPILE_ERROR,
            message=failed.message,
            compilation=failed.compilation,
            isolation=self.isolation,
        )


def _checker_program(checker: Checker) -> ProgramRequest:
    """Return the request's own checker, or the named ready-made checker, as a program."""
    if checker.named is None:
        return ProgramRequest(
            code=checker.code or "", language=checker.language, limits=checker.limits
        )
    if checker.named not in NAMED:
        known = ", ".join(sorted(NAMED))
        raise InvalidInput(
            f"there is no checker named {checker.named!r}",
            field="checker.named",
            hint=f"the ready-made checkers are {known}",
        )
    return ProgramRequest(code=NAMED[checker.named], limits=checker.limits)


def _profile(request: ProgramRequest) -> str:
    """Return the language's own profile, or else the requested profile.

    `auto` becomes `std` unless the program names a package in need of numpy.
    """
    own = LANGUAGES[request.language].profile
    if own or request.profile != "auto":
        return own or request.profile
    return "auto" if is_faster_with_numpy(request) else "std"
