"""SandboxFusion's format of programs, so its clients (such as verl's) run against this service.

Its timeouts are wall time on a machine that may be busy. Here a timeout bounds CPU time, and wall
time only twice as far, so other programs cannot make a program late. Sleep counts as in
SandboxFusion: the timeout bounds the time a program computes and sleeps together.
"""

from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from assay_shared.errors import InvalidInput
from assay_shared.types import (
    COMPILE_LIMITS,
    MAX_FILES,
    Compilation,
    ExecutionRequest,
    ExecutionResult,
    FileContent,
    FileName,
    Limits,
    Status,
    at_most,
    check_fetch_name,
    check_names_together,
)

#: Our language for each of SandboxFusion's.
LANGUAGES = {
    "python": "python",
    "pytest": "pytest",
    "bash": "bash",
    "cpp": "cpp17",
    "csharp": "csharp",
    "D_ut": "d",
    "go": "go",
    "go_test": "go_test",
    "java": "java",
    "jest": "jest",
    "junit": "junit",
    "kotlin_script": "kotlin_script",
    "lua": "lua",
    "nodejs": "javascript",
    "js": "javascript",
    "perl": "perl",
    "php": "php",
    "R": "r",
    "racket": "racket",
    "ruby": "ruby",
    "rust": "rust",
    "scala": "scala",
    "ts": "typescript",
    "typescript": "typescript",
    "verilog": "verilog",
}
#: SandboxFusion compiles these as part of the run, not as a separate step.
_COMPILED_IN_RUN = {"csharp", "go_test", "ts", "typescript"}
_ENDED = {Status.ACCEPTED, Status.RUNTIME_ERROR, Status.SYNTAX_ERROR}
_DEFAULT_MEMORY_BYTES, _MIN_MEMORY_MB = 1024 * 2**20, 16
_MAX_CPU_TIME_S = 300.0
#: Our names for the folders a program may write to, by SandboxFusion's names.
_FOLDERS = {"/w/": "", "/tmp/": "/tmp/", "/mnt/": "/tmp/"}


def to_name(name: object) -> str:
    """Return a file's name in this sandbox's format."""
    text = str(name)
    for folder, ours in _FOLDERS.items():
        if text.startswith(folder):
            return ours + str(PurePosixPath(text.removeprefix(folder)))
    return str(PurePosixPath(text))


def _is_fetchable(name: str) -> str:
    check_fetch_name(to_name(name))
    return name


#: Files to put into the program's folder or /tmp.
Files = Annotated[
    dict[Annotated[FileName, BeforeValidator(to_name)], FileContent | None],
    at_most(MAX_FILES),
]
#: Files to return, by their names in the answer.
FetchFiles = Annotated[
    list[Annotated[str, AfterValidator(_is_fetchable)]],
    at_most(MAX_FILES),
    AfterValidator(check_names_together),
]


class RunCodeRequest(BaseModel):
    """POST /run_code. A `memory_limit_MB` below 0 means the caller sets no limit."""

    model_config = ConfigDict(extra="ignore")

    code: str
    language: str
    stdin: str | None = ""
    compile_timeout: float = Field(default=10.0, gt=0, le=_MAX_CPU_TIME_S)
    run_timeout: float = Field(default=10.0, gt=0, le=_MAX_CPU_TIME_S)
    memory_limit_MB: int = -1  # as it is on the wire
    files: Files = {}
    fetch_files: FetchFiles = []


class CommandResult(BaseModel):
    """The result of a command: its end, exit code and output."""

    status: Literal["Finished", "Error", "TimeLimitExceeded"]
    execution_time: float | None = None
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class RunCodeResponse(BaseModel):
    """The result of a program.

    `Success` is an end with exit code 0. `SandboxError` is never the program's fault.
    """

    status: Literal["Success", "Failed", "SandboxError"]
    message: str
    compile_result: CommandResult | None = None
    run_result: CommandResult | None = None
    executor_pod_name: str | None = None
    files: dict[str, FileContent] = {}


def to_execution(request: RunCodeRequest) -> ExecutionRequest:
    """Return the request in this sandbox's format.

    Raises:
        InvalidInput: the language is not served here.
    """
    if request.language not in LANGUAGES:
        known = ", ".join(LANGUAGES)
        raise InvalidInput(
            f"{request.language!r} is not served", field="language", hint=f"known: {known}"
        )
    return ExecutionRequest(
        code=request.code,
        language=LANGUAGES[request.language],
        stdin=request.stdin or "",
        files={name: data for name, data in request.files.items() if data is not None},
        fetch_files=tuple(dict.fromkeys(map(to_name, request.fetch_files))),
        limits=to_limits(request.run_timeout, request.memory_limit_MB),
        compile_limits=_compile_limits(request),
    )


def to_limits(timeout_s: float, memory_mb: int) -> Limits:
    """Return the limits for a timeout and a memory limit of SandboxFusion."""
    return Limits(
        cpu_time_s=timeout_s,
        wall_time_s=_to_wall_time(timeout_s),
        memory_bytes=max(memory_mb, _MIN_MEMORY_MB) * 2**20
        if memory_mb > 0
        else _DEFAULT_MEMORY_BYTES,
    )


def _compile_limits(request: RunCodeRequest) -> Limits:
    if request.language in _COMPILED_IN_RUN:
        return COMPILE_LIMITS
    return COMPILE_LIMITS.model_copy(
        update={
            "cpu_time_s": request.compile_timeout,
            "wall_time_s": _to_wall_time(request.compile_timeout),
        }
    )


def _to_wall_time(cpu_time_s: float) -> float:
    return max(2 * cpu_time_s, cpu_time_s + 1)


def is_late(result: ExecutionResult, timeout_s: float) -> bool:
    """Return True if a program would exceed its timeout on a host without other programs.

    The time it waited for a core does not count: other programs cause it.
    """
    took_s = min(result.wall_time_s, result.cpu_time_s + result.idle_time_s)
    return result.status is Status.TIME_LIMIT or took_s > timeout_s


def from_result(result: ExecutionResult, request: RunCodeRequest) -> RunCodeResponse:
    """Return the result in SandboxFusion's format."""
    late = is_late(result, request.run_timeout)
    succeeded = result.status is Status.ACCEPTED and not late
    response = RunCodeResponse(
        status="Success" if succeeded else "Failed",
        message="" if succeeded else _message(result, late=late),
        files={
            name: result.files[to_name(name)]
            for name in request.fetch_files
            if to_name(name) in result.files
        },
    )
    compiled = None if result.compilation is None else _from_compilation(result.compilation)
    if request.language not in _COMPILED_IN_RUN:
        response.compile_result = compiled
    if result.status is not Status.COMPILE_ERROR:
        response.run_result = CommandResult(
            status="TimeLimitExceeded" if late else "Finished",
            execution_time=result.wall_time_s,
            # No exit code for a program over a limit: it may have ended with 0 before the kill.
            return_code=result.exit_code if result.status in _ENDED and not late else None,
            stdout=result.stdout,
            stderr=result.stderr,
        )
    elif request.language in _COMPILED_IN_RUN:
        response.run_result = compiled
    return response


def _message(result: ExecutionResult, *, late: bool) -> str:
    if late and result.status is not Status.TIME_LIMIT:
        used = f"{result.cpu_time_s:.2f} s of CPU time and {result.idle_time_s:.1f} s of sleep"
        return f"{Status.TIME_LIMIT}: {used}"
    return f"{result.status}: {result.message}"


def _from_compilation(compilation: Compilation) -> CommandResult:
    late = compilation.out_of_time
    return CommandResult(
        status="TimeLimitExceeded" if late else "Finished",
        execution_time=compilation.wall_time_s,
        return_code=None if late else 0 if compilation.succeeded else 1,
        stdout="",
        stderr=compilation.output,
    )


def unavailable(message: str) -> RunCodeResponse:
    """Return an answer for status 504, the only status after which verl's client retries."""
    return RunCodeResponse(status="SandboxError", message=message)
