"""Program repair over several turns: each program is tested, and the policy reads a feedback.

All tests give the outcome and the share passed. What is shown of a test comes from a second run,
which gets the public tests alone: no program can print a hidden test there. See docs/repair.md.
"""

from collections.abc import Sequence

from pydantic import Field, JsonValue

from assay_reward.environment import StepEnvironment
from assay_reward.environment_task import check_not_over, played_in, read_instance
from assay_reward.instruments import ComponentUsage, Instruments
from assay_reward.programs import has_tests, limits_of, run_tests
from assay_shared.answers.whole_program import whole_program
from assay_shared.errors import SandboxFault
from assay_shared.repair.feedback import (
    FAILED_CASES,
    FEEDBACK_TOKENS,
    LEAST_TOKENS,
    FailedCase,
    PublicRun,
    feedback,
    most_tokens,
    shown_case,
)
from assay_shared.repair.public_cases import public_cases
from assay_shared.settings.run_file import Config
from assay_shared.types import (
    CaseResult,
    Cost,
    ExecutionRequest,
    Status,
    StdinCase,
    StepResponse,
    Task,
    TestCase,
    TestReport,
)

NAME = "code_repair"
#: Of a facts entry: more is not read by anybody.
_MESSAGE_LENGTH = 4000
_OF_THE_PROGRAM = (Status.SYNTAX_ERROR, Status.COMPILE_ERROR)


class CodeRepair(Config):
    """Options of a task: its first `visible_tests` tests may be shown to the policy.

    Without it, the public tests are those that the task names: see `public_cases`.
    """

    visible_tests: int | None = Field(default=None, ge=0)
    feedback_tokens: int = Field(default=FEEDBACK_TOKENS, ge=LEAST_TOKENS, le=4096)


async def _step(task: Task, turns: tuple[str, ...], instruments: Instruments) -> StepResponse:
    """Test only the last program: an earlier accepted program would have ended the episode."""
    played = played_in(task, NAME)
    options = read_instance(played, CodeRepair)
    has_tests(task, options)
    check_not_over(len(turns), played.max_turns)
    public = public_cases(task)
    if options.visible_tests is not None:
        public = task.tests[: options.visible_tests]
    if not turns:
        return StepResponse(observation=task.prompt, done=False)
    meter = ComponentUsage()
    report = await run_tests(instruments.sandbox, task, turns[-1], meter)
    accepted = report.status is Status.ACCEPTED
    run = PublicRun()
    if not accepted:
        run = await _public_run(task, turns[-1], public, report, instruments, meter)
    turns_left = played.max_turns - len(turns)
    observation = "The program is right: all tests passed."
    if not accepted:
        observation = _observation(report, run, turns_left, options.feedback_tokens)
    return StepResponse(
        observation=observation,
        done=accepted or turns_left == 0,
        parts={"accepted": float(accepted), "pass_ratio": report.pass_ratio},
        facts={
            "status": report.status.value,
            "num_passed": report.num_passed,
            "num_ungradable": report.num_ungradable,
            "public": _facts(run),
            "sandbox_cpu_s": meter.cost.sandbox_cpu_s,
        },
    )


def _observation(report: TestReport, run: PublicRun, turns_left: int, budget: int) -> str:
    """Return the feedback with the turns left, of at most `budget` tokens."""

    def whole(said: str) -> str:
        return f"{said}\nTurns left: {turns_left}."

    def count(said: str) -> int:
        return most_tokens(whole(said))

    return whole(feedback(report.status, report.pass_ratio, run, budget=budget, count=count))


async def _public_run(
    task: Task,
    answer: str,
    public: tuple[TestCase, ...],
    report: TestReport,
    instruments: Instruments,
    meter: ComponentUsage,
) -> PublicRun:
    """Return what the public tests tell of a program, from a run of them alone."""
    if not public:
        return PublicRun()
    if public != task.tests:
        alone = task.model_copy(update={"tests": public})
        report = await run_tests(instruments.sandbox, alone, answer, meter)
    if report.status in _OF_THE_PROGRAM:
        message = report.cases[0].message[-_MESSAGE_LENGTH:]
        return PublicRun(num_cases=len(public), error=message)
    failed = [
        (case, result)
        for case, result in zip(public, report.cases, strict=False)
        if result.status not in (Status.ACCEPTED, None)
    ]
    told = [
        await _failed(task, answer, case, result, instruments, meter)
        for case, result in failed[:FAILED_CASES]
    ]
    return PublicRun(num_cases=len(public), num_passed=report.num_passed, failed=told)


async def _failed(
    task: Task,
    answer: str,
    case: TestCase,
    result: CaseResult,
    instruments: Instruments,
    meter: ComponentUsage,
) -> FailedCase:
    """Return a failed public test; of a program that reads stdin, with the end of its stderr."""
    message = result.message
    if isinstance(case, StdinCase) and result.status is Status.RUNTIME_ERROR:
        code, limits = whole_program(task, answer), limits_of(task)
        request = ExecutionRequest(code=code, stdin=case.stdin, limits=limits)
        ended = await instruments.sandbox.execute(request)
        meter.charge(Cost(sandbox_cpu_s=ended.cpu_time_s))
        if ended.status is Status.SANDBOX_ERROR:
            raise SandboxFault("the sandbox failed on a public test")
        message = f"{ended.stderr.strip()}\n{message}".strip()
    assert result.status is not None
    return FailedCase(shown_case(case), result.status.value, message[-_MESSAGE_LENGTH:])


def _facts(run: PublicRun) -> dict[str, JsonValue]:
    failed: Sequence[JsonValue] = [
        {"shown": one.shown, "status": one.status, "message": one.message} for one in run.failed
    ]
    return {
        "num_cases": run.num_cases,
        "num_passed": run.num_passed,
        "failed": list(failed),
        "error": run.error,
    }


CODE_REPAIR = StepEnvironment("Fix a program until it passes the task's tests.", _step)
