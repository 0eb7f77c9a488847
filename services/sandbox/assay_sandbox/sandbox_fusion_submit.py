"""SandboxFusion's judging route: a completion, and the stdin tests that its program has to pass.

Only tests that travel with the request are judged: no data set is stored here.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from assay_sandbox.sandbox_fusion import (
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
#: A share of what is expected, for lines that are a number.
_TOLERANCE = 1e-5
_MAX_ECHO = 1000
_ALIASES = {
    "bash": "bash sh shell",
    "cpp": "cpp c++",
    "csharp": "csharp c#",
    "go": "go",
    "java": "java",
    "nodejs": "javascript js",
    "python": "python python3 py",
    "rust": "rust rs",
    "typescript": "typescript ts",
}
_LANGUAGE_OF_TAG = {tag: name for name, tags in _ALIASES.items() for tag in tags.split()}
_FENCE = "```"


class Stdin(BaseModel):
    """The only input that is served; other names would be files."""

    model_config = ConfigDict(extra="forbid")

    stdin: str


class Stdout(BaseModel):
    model_config = ConfigDict(extra="forbid")

    stdout: str


class StdioTest(BaseModel):
    """One test."""

    input: Stdin
    output: Stdout


def _parse(tests: object) -> object:
    """Tests may travel as JSON in a string, with bare control characters in it."""
    if not isinstance(tests, str):
        return tests
    try:
        return json.loads(tests, strict=False)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


class Problem(BaseModel):
    """A row of their data sets; all but its tests is for people."""

    test: Annotated[
        list[StdioTest], at_most(MAX_CASES), BeforeValidator(_parse), Field(min_length=1)
    ]


class SubmitConfig(BaseModel):
    """Their `TestConfig`; in `extra`, `run_all_cases` and `return_full_case` are read."""

    dataset_type: Literal["CommonOJDataset"] | None = None
    language: str
    compile_timeout: float | None = Field(default=None, ge=0, le=300)
    run_timeout: float | None = Field(default=None, ge=0, le=300)
    custom_extract_logic: str | None = None
    provided_data: Problem | None = None
    extra: dict[str, Any] = {}


class SubmitRequest(BaseModel):
    """POST /submit."""

    dataset: str
    id: int | str
    completion: str
    config: SubmitConfig


class JudgedTest(BaseModel):
    """How the program ran, and whether what it printed was right."""

    passed: bool
    exec_info: RunCodeResponse
    test_info: StdioTest


class SubmitResponse(BaseModel):
    """`tests` ends with the first that failed, unless `run_all_cases`. What is null is so there."""

    id: int | str
    accepted: bool
    extracted_code: str
    full_code: str | None = None
    test_code: str | None = None
    tests: list[JudgedTest]
    extracted_type: str | None = None
    extra: dict[str, Any] | None = None


def to_test(request: SubmitRequest) -> TestRequest:
    """The request in our own terms.

    Raises:
        InvalidInput: it asks for something that is not served here.
    """
    config = request.config
    run_code = RunCodeRequest(
        code=extract(request.completion, config.language),
        language=config.language,
        run_timeout=config.run_timeout or _RUN_TIMEOUT_S,
        compile_timeout=config.compile_timeout or _COMPILE_TIMEOUT_S,
    )
    try:
        execution = to_execution(run_code)
    except InvalidInput as error:
        raise InvalidInput(error.message, field=f"config.{error.field}", hint=error.hint) from None
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
            for test in _tests(config)
        ),
        stop_on_first_failure=not config.extra.get("run_all_cases", False),
    )


def from_judged(
    request: SubmitRequest, code: str, judged: list[tuple[CaseResult, ExecutionResult]]
) -> SubmitResponse:
    """The verdicts on `code` in SandboxFusion's words."""
    config = request.config
    tests = []
    for test, (result, execution) in zip(_tests(config), judged, strict=False):
        passed = result.status is Status.ACCEPTED
        whole = not passed or config.extra.get("return_full_case", False)
        tests.append(
            JudgedTest(
                passed=passed,
                exec_info=from_result(execution),
                test_info=test if whole else _shorten(test),
            )
        )
    accepted = all(test.passed for test in tests)
    return SubmitResponse(id=request.id, accepted=accepted, extracted_code=code, tests=tests)


def extract(completion: str, language: str) -> str:
    """The program: of the fenced blocks, the first in `language`, else the first.

    Without one, what follows a fence that nothing closes; without that, what looks like code. A
    completion with none of these has an empty program, which is run like any other.
    """
    blocks = list(_fenced(completion.split("\n")))
    if not blocks:
        return _extract_unfenced(completion, language)
    tagged = (
        code
        for tag, code in blocks
        if _LANGUAGE_OF_TAG.get(tag.strip().lower(), tag.strip()) == language
    )
    return next(tagged, blocks[0][1])


def _fenced(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Tag and code of each block, or of one that is open to the end where no block is closed.

    A fence opens anywhere in a line and closes at the start of one, but not of the very next.
    """
    at, num_closed = 0, 0
    while at < len(lines) - 1:
        _, fence, tag = lines[at].partition(_FENCE)
        if not fence:
            at += 1
            continue
        closings = range(at + 2, len(lines))
        end = next((n for n in closings if lines[n].lstrip().startswith(_FENCE)), None)
        if end is None:
            if not num_closed:
                yield tag, "\n".join(lines[at + 1 :])
            return
        last = end - 1
        while last > at + 1 and not lines[last].strip():
            last -= 1
        yield tag, "\n".join(lines[at + 1 : last + 1])
        num_closed += 1
        lines[end] = lines[end].lstrip().removeprefix(_FENCE)
        at = end


def _extract_unfenced(completion: str, language: str) -> str:
    """In Python the first function or class, with the imports above it; in bash, everything."""
    lines = [line for line in completion.split("\n") if line.strip()]
    if language == "bash":
        return "\n".join(lines) + "\n"
    if language != "python":
        return ""
    for start, line in enumerate(lines):
        if not line.startswith(("def ", "class ")):
            continue
        end = start + 1
        while end < len(lines) and lines[end][0].isspace():
            end += 1
        if end == start + 1:
            continue
        while start and lines[start - 1].startswith(("import", "from", "#")):
            start -= 1
        return "\n".join(lines[start:end]) + "\n"
    return ""


def _tests(config: SubmitConfig) -> list[StdioTest]:
    if config.custom_extract_logic is not None:
        raise InvalidInput(
            "a caller's Python is not run in the service", field="config.custom_extract_logic"
        )
    if config.provided_data is None:
        raise InvalidInput(
            "no data set is stored here",
            field="config.provided_data",
            hint="send the problem with its tests",
        )
    return config.provided_data.test


def _shorten(test: StdioTest) -> StdioTest:
    """For an answer: a test that passed is known to who sent it."""
    return StdioTest(
        input=Stdin(stdin=_middle_out(test.input.stdin)),
        output=Stdout(stdout=_middle_out(test.output.stdout)),
    )


def _middle_out(text: str) -> str:
    half = (_MAX_ECHO - len("...")) // 2
    return text if len(text) <= _MAX_ECHO else f"{text[:half]}...{text[-half:]}"
