"""Program repair over several turns: each program is tested, and the policy reads a feedback.

The feedback tells how the program ended, the number of tests passed, and the first failures among
the visible tests. Of hidden tests, it tells nothing but their number.
"""

from pydantic import Field

from assay_reward.environment import StepEnvironment
from assay_reward.environment_task import check_not_over, played_in, read_instance
from assay_reward.instruments import ComponentUsage, Instruments
from assay_reward.programs import has_tests, run_tests
from assay_shared.settings.run_file import Config
from assay_shared.types import (
    AssertCase,
    CallCase,
    CaseResult,
    Status,
    StdinCase,
    StepResponse,
    Task,
    TestCase,
    TestReport,
)

NAME = "code_repair"
#: A feedback has some 400 tokens at most.
_MAX_CASES_SHOWN = 3
_INPUT_LENGTH = 120
_MESSAGE_LENGTH = 240
#: Found before any test is run, so the message cannot reveal a hidden test.
_OF_THE_PROGRAM = (Status.SYNTAX_ERROR, Status.COMPILE_ERROR)


class CodeRepair(Config):
    """Options of a task: its first `visible_tests` tests may be shown to the policy."""

    visible_tests: int = Field(default=0, ge=0)


async def _step(task: Task, turns: tuple[str, ...], instruments: Instruments) -> StepResponse:
    """Test only the last program: an earlier accepted program would have ended the episode."""
    played = played_in(task, NAME)
    options = read_instance(played, CodeRepair)
    has_tests(task, options)
    check_not_over(len(turns), played.max_turns)
    if not turns:
        return StepResponse(observation=task.prompt, done=False)
    report = await run_tests(instruments.sandbox, task, turns[-1], ComponentUsage())
    turns_left = played.max_turns - len(turns)
    accepted = report.status is Status.ACCEPTED
    return StepResponse(
        observation=feedback(report, task.tests[: options.visible_tests], turns_left),
        done=accepted or turns_left == 0,
        parts={"accepted": float(accepted), "pass_ratio": report.pass_ratio},
        facts={
            "status": report.status.value,
            "num_passed": report.num_passed,
            "num_ungradable": report.num_ungradable,
        },
    )


def feedback(report: TestReport, visible: tuple[TestCase, ...], turns_left: int) -> str:
    """Return the feedback on a program's tests; `visible` are the first of the task's tests."""
    lines = [f"Status: {report.status}. {report.num_passed} of {len(report.cases)} tests passed."]
    if report.status in _OF_THE_PROGRAM:
        lines.append(_tail(report.cases[0].message, _MESSAGE_LENGTH * 2))
    else:
        failing = [
            (number, case, result)
            for number, (case, result) in enumerate(zip(visible, report.cases, strict=False), 1)
            if result.status not in (Status.ACCEPTED, None)
        ]
        lines += [_failing(*one) for one in failing[:_MAX_CASES_SHOWN]]
    if report.status is not Status.ACCEPTED:
        lines.append(f"Turns left: {turns_left}. Reply with the whole program, mended.")
    return "\n".join(line for line in lines if line)


def _failing(number: int, case: TestCase, result: CaseResult) -> str:
    return f"Test {number}, {_shown(case)}: {result.status}\n{_tail(result.message)}".rstrip()


def _shown(case: TestCase) -> str:
    match case:
        case StdinCase():
            return (
                f"stdin {_head(repr(case.stdin))}, "
                f"expected output {_head(repr(case.expected_stdout))}"
            )
        case CallCase():
            arguments = ", ".join(repr(argument) for argument in case.args)
            call = f"{case.function}({_head(arguments)})"
            return f"{call}, expected {_head(repr(case.expected))}"
        case AssertCase():
            return _head(case.code.strip())


def _head(text: str) -> str:
    return text if len(text) <= _INPUT_LENGTH else text[:_INPUT_LENGTH] + "..."


def _tail(text: str, length: int = _MESSAGE_LENGTH) -> str:
    """Return the end of a message: the last lines of a traceback name the error."""
    text = text.strip()
    return text if len(text) <= length else "..." + text[-length:]


CODE_REPAIR = StepEnvironment("Fix a program until it passes the task's tests.", _step)
