"""SandboxFusion's judging route: the stdin tests of a completion's program, and the verdicts."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from assay_sandbox.formats.sandbox_fusion.datasets import Row, TestConfig, parse_json, read_as
from assay_sandbox.formats.sandbox_fusion.programs import (
    LANGUAGES,
    RunCodeRequest,
    RunCodeResponse,
    from_result,
    to_execution,
)
from assay_shared.errors import InvalidInput
from assay_shared.types import (
    MAX_CASES,
    CaseResult,
    Comparison,
    ExecutionResult,
    Status,
    StdinCase,
    TestRequest,
    at_most,
)

_RUN_TIMEOUT_S = 20.0
_COMPILE_TIMEOUT_S = 10.0
#: Relative tolerance for lines that are a number.
_TOLERANCE = 1e-5
_MAX_ECHO = 1000


class Stdin(BaseModel):
    """The input of a test. Only stdin is served; SandboxFusion's other names are files."""

    model_config = ConfigDict(extra="forbid")

    stdin: str


class Stdout(BaseModel):
    """The expected output of a test."""

    model_config = ConfigDict(extra="forbid")

    stdout: str


class StdioTest(BaseModel):
    """A stdin test: its input and its expected output."""

    input: Stdin
    output: Stdout


class SubmitProblem(BaseModel):
    """A row of SandboxFusion's data sets; only its tests are read here."""

    test: Annotated[
        list[StdioTest],
        at_most(MAX_CASES),
        BeforeValidator(lambda tests: parse_json(tests, "test")),
        Field(min_length=1),
    ]


class SubmitRequest(BaseModel):
    """POST /submit."""

    dataset: str
    id: int | str
    completion: str
    config: TestConfig


class JudgedTest(BaseModel):
    """The run and the verdict of a test."""

    passed: bool
    exec_info: RunCodeResponse
    test_info: StdioTest | None = None


class SubmitResponse(BaseModel):
    """The verdict on a completion. `tests` ends with the first failure, unless `run_all_cases`.

    The fields that are null here are null in SandboxFusion too.
    """

    id: int | str
    accepted: bool
    extracted_code: str
    full_code: str | None = None
    test_code: str | None = None
    tests: list[JudgedTest]
    extracted_type: str | None = None
    extra: dict[str, Any] | None = None


def check_language(config: TestConfig) -> str:
    """Return the language of the completion.

    Raises:
        InvalidInput: the request names no language, or an unknown language.
    """
    if config.language not in LANGUAGES:
        known = ", ".join(LANGUAGES)
        raise InvalidInput(
            f"{config.language!r} is not served", field="config.language", hint=f"known: {known}"
        )
    return config.language


def read_tests(row: Row) -> list[StdioTest]:
    """Return the tests of a problem.

    Raises:
        InvalidInput: the problem has no tests, or tests of a kind not served.
    """
    return read_as(SubmitProblem, row).test


def to_test(request: SubmitRequest, code: str, tests: list[StdioTest]) -> TestRequest:
    """Return the test request for the program `code`, in this sandbox's format.

    Raises:
        InvalidInput: the language is not served here.
    """
    config = request.config
    execution = to_execution(_run_code(config, code))
    return TestRequest(
        code=execution.code,
        language=execution.language,
        limits=execution.limits,
        compile_limits=execution.compile_limits,
        cases=tuple(
            StdinCase(
                stdin=test.input.stdin,
                expected_stdout=test.output.stdout,
                compare=Comparison.LOOSE,
                tolerance=_TOLERANCE,
            )
            for test in tests
        ),
        stop_on_first_failure=not config.extra.get("run_all_cases", False),
    )


def _run_code(config: TestConfig, code: str) -> RunCodeRequest:
    return RunCodeRequest(
        code=code,
        language=check_language(config),
        run_timeout=config.run_timeout or _RUN_TIMEOUT_S,
        compile_timeout=config.compile_timeout or _COMPILE_TIMEOUT_S,
    )


def from_judged(
    request: SubmitRequest,
    code: str,
    tests: list[StdioTest],
    judged: list[tuple[CaseResult, ExecutionResult]],
) -> SubmitResponse:
    """Return the verdicts on `code` in SandboxFusion's format."""
    config = request.config
    run_code = _run_code(config, code)
    results: list[JudgedTest] = []
    for test, (result, execution) in zip(tests, judged, strict=False):
        info = from_result(execution, run_code)
        passed = result.status is Status.ACCEPTED and info.status == "Success"
        whole = not passed or config.extra.get("return_full_case", False)
        results.append(
            JudgedTest(passed=passed, exec_info=info, test_info=test if whole else _shorten(test))
        )
        if not passed and not config.extra.get("run_all_cases", False):
            break
    accepted = all(test.passed for test in results)
    return SubmitResponse(id=request.id, accepted=accepted, extracted_code=code, tests=results)


def _shorten(test: StdioTest) -> StdioTest:
    """Return a passed test with shortened texts: the client has the full texts."""
    return StdioTest(
        input=Stdin(stdin=_middle_out(test.input.stdin)),
        output=Stdout(stdout=_middle_out(test.output.stdout)),
    )


def _middle_out(text: str) -> str:
    half = (_MAX_ECHO - len("...")) // 2
    return text if len(text) <= _MAX_ECHO else f"{text[:half]}...{text[-half:]}"
