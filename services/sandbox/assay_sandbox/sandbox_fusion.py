"""SandboxFusion's wire format, so that its clients (verl's, for one) run against this service.

Its timeouts are wall time on a machine that may be busy. Here they bound CPU time, and wall time
only twice as far, so that a program is not slow because others are.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from assay_shared.errors import InvalidInput
from assay_shared.types import (
    COMPILE_LIMITS,
    MAX_FILES,
    ExecutionRequest,
    ExecutionResult,
    FetchedNames,
    FileContent,
    FileName,
    Limits,
    Status,
    at_most,
)

_LANGUAGES = {
    "python": "python",
    "bash": "bash",
    "cpp": "cpp17",
    "go": "go",
    "java": "java",
    "nodejs": "javascript",
    "rust": "rust",
    "typescript": "typescript",
}
_ENDED = {Status.ACCEPTED, Status.RUNTIME_ERROR, Status.SYNTAX_ERROR}
_DEFAULT_MEMORY_BYTES = 1024 * 2**20
_MAX_CPU_TIME_S = 300.0


class RunCodeRequest(BaseModel):
    """POST /run_code. `memory_limit_MB` below 0 stands for no limit of the caller's."""

    model_config = ConfigDict(extra="ignore")

    code: str
    language: str
    stdin: str | None = ""
    compile_timeout: float = Field(default=10.0, gt=0, le=_MAX_CPU_TIME_S)
    run_timeout: float = Field(default=10.0, gt=0, le=_MAX_CPU_TIME_S)
    memory_limit_MB: int = -1  # as it is on the wire
    files: Annotated[dict[FileName, FileContent | None], at_most(MAX_FILES)] = {}
    fetch_files: FetchedNames = ()


class CommandResult(BaseModel):
    """One command: whether it ended by itself, and with what."""

    status: Literal["Finished", "Error", "TimeLimitExceeded"]
    execution_time: float | None = None
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class RunCodeResponse(BaseModel):
    """`Success` is a program that ended with 0; `SandboxError` is never the program's fault."""

    status: Literal["Success", "Failed", "SandboxError"]
    message: str
    compile_result: CommandResult | None = None
    run_result: CommandResult | None = None
    executor_pod_name: str | None = None
    files: dict[str, FileContent] = {}


def to_execution(request: RunCodeRequest) -> ExecutionRequest:
    """The request in our own terms.

    Raises:
        InvalidInput: it asks for something that is not served here.
    """
    if request.language not in _LANGUAGES:
        known = ", ".join(_LANGUAGES)
        raise InvalidInput(
            f"{request.language!r} is not served", field="language", hint=f"known: {known}"
        )
    memory_bytes = request.memory_limit_MB * 2**20
    return ExecutionRequest(
        code=request.code,
        language=_LANGUAGES[request.language],
        stdin=request.stdin or "",
        files={name: data for name, data in request.files.items() if data is not None},
        fetch_files=request.fetch_files,
        limits=Limits(
            cpu_time_s=request.run_timeout,
            wall_time_s=_to_wall_time(request.run_timeout),
            memory_bytes=memory_bytes if memory_bytes > 0 else _DEFAULT_MEMORY_BYTES,
        ),
        compile_limits=COMPILE_LIMITS.model_copy(
            update={
                "cpu_time_s": request.compile_timeout,
                "wall_time_s": _to_wall_time(request.compile_timeout),
            }
        ),
    )


def _to_wall_time(cpu_time_s: float) -> float:
    return max(2 * cpu_time_s, cpu_time_s + 1)


def from_result(result: ExecutionResult) -> RunCodeResponse:
    """The result in SandboxFusion's words."""
    late = result.status is Status.TIME_LIMIT
    succeeded = result.status is Status.ACCEPTED
    compiled = None
    if result.compilation is not None:
        compiled = CommandResult(
            status="Finished",
            execution_time=result.compilation.wall_time_s,
            return_code=0 if result.compilation.succeeded else 1,
            stdout="",
            stderr=result.compilation.output,
        )
    response = RunCodeResponse(
        status="Success" if succeeded else "Failed",
        message="" if succeeded else f"{result.status}: {result.message}",
        compile_result=compiled,
        files=result.files,
    )
    if result.status is Status.COMPILE_ERROR:
        return response
    return response.model_copy(
        update={
            "run_result": CommandResult(
                status="TimeLimitExceeded" if late else "Finished",
                execution_time=result.wall_time_s,
                # A program over a limit may have ended with 0 before it was killed for it.
                return_code=result.exit_code if result.status in _ENDED else None,
                stdout=result.stdout,
                stderr=result.stderr,
            )
        }
    )


def unavailable(message: str) -> RunCodeResponse:
    """For an answer with status 504, the only one that verl's client asks again after."""
    return RunCodeResponse(status="SandboxError", message=message)
