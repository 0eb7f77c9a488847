"""Requests to run programs and test cases in the sandbox, and their results."""

import base64
import binascii
from collections.abc import Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from assay_shared.text.half_characters import is_utf8
from assay_shared.types.task import TestCase
from assay_shared.types.wire import Wire


class Limits(Wire):
    """Limits of a program. CPU time is the program's own; wall time bounds idle waiting."""

    #: Processor time, in seconds.
    cpu_time_s: float = Field(default=5.0, gt=0, le=300)
    #: Time by the clock, in seconds.
    wall_time_s: float = Field(default=15.0, gt=0, le=600)
    #: Memory of all processes of the program together.
    memory_bytes: int = Field(default=512 * 2**20, ge=16 * 2**20, le=64 * 2**30)
    #: Output of the program, to stdout and stderr each.
    output_bytes: int = Field(default=2**20, ge=0, le=64 * 2**20)
    #: The largest file that the program may write.
    file_bytes: int = Field(default=16 * 2**20, ge=0, le=2**30)
    #: Processes and threads at once.
    processes: int = Field(default=64, ge=1, le=4096)


class Status(StrEnum):
    """How a program ended. `sandbox_error` is our fault and never the program's.

    `ungradable`: the grader cannot decide without trusting the program, or within the limits of
    grading. The answer is not accepted, and the sandbox is not at fault.
    """

    ACCEPTED = "accepted"
    WRONG_ANSWER = "wrong_answer"
    COMPILE_ERROR = "compile_error"
    SYNTAX_ERROR = "syntax_error"
    RUNTIME_ERROR = "runtime_error"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    UNGRADABLE = "ungradable"
    SANDBOX_ERROR = "sandbox_error"


COMPILE_LIMITS = Limits(
    cpu_time_s=30.0, wall_time_s=60.0, memory_bytes=2**31, file_bytes=64 * 2**20, processes=128
)


def _from_base64(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError("a file's content must be base64") from None


def _check_file_name(name: str) -> str:
    if "\0" in name or not is_utf8(name):
        raise ValueError("a file's name must be Unicode text without NUL")
    path = PurePosixPath(name)
    if name != str(path) or path.is_absolute() or ".." in path.parts or name == ".":
        raise ValueError("a file's name must be a plain path below the program's folder")
    if len(path.parts) > 8 or any(len(part.encode()) > 255 for part in path.parts):
        raise ValueError("a file's name may have 8 parts of 255 bytes")
    return name


def at_most(number: int) -> BeforeValidator:
    """Return a validator to refuse a list or object of more than `number` items.

    The validator runs before the items are checked. Otherwise each of a million wrong items would
    become an error.
    """

    def check(value: object) -> object:
        if isinstance(value, list | tuple | dict) and len(value) > number:
            raise ValueError(f"may have {number} items, not {len(value)}")
        return value

    return BeforeValidator(check)


def check_names_together(names: Sequence[str]) -> Sequence[str]:
    """Return `names`; refuse more than a slot's socket carries in a single message.

    Raises:
        ValueError: the names have more than `MAX_NAMES_BYTES` bytes together.
    """
    if sum(len(name.encode()) for name in names) > MAX_NAMES_BYTES:
        raise ValueError(f"the names may have {MAX_NAMES_BYTES} bytes together")
    return names


#: Base64 in JSON.
FileContent = Annotated[
    bytes,
    BeforeValidator(_from_base64),
    PlainSerializer(lambda data: base64.b64encode(data).decode(), str, when_used="json"),
]


FileName = Annotated[str, AfterValidator(_check_file_name)]


def check_fetch_name(name: str) -> str:
    """Return `name`, the name of a file to fetch.

    Raises:
        ValueError: the name leads out of the program's folders.
    """
    _check_file_name(name.removeprefix("/tmp/"))
    return name


#: A file left by a program: below the program's folder, or in its /tmp.
FetchName = Annotated[str, AfterValidator(check_fetch_name)]


MAX_FILES = 64


#: Bytes of the names of all files to bring back, together.
MAX_NAMES_BYTES = 16_384


FetchedNames = Annotated[
    tuple[FetchName, ...], at_most(MAX_FILES), AfterValidator(check_names_together)
]


Files = Annotated[dict[FileName, FileContent], at_most(MAX_FILES)]


MAX_CASES = 1000


class ProgramRequest(Wire):
    """A program, with the limits of the program and of its compiler."""

    #: The program's text.
    code: str
    #: One of `GET /v1/languages`.
    language: str = "python"
    #: The packages that a Python program finds; `auto` decides by the program's imports.
    profile: Literal["auto", "std", "scientific"] = "auto"
    #: Files to put into the program's working directory, by name.
    files: Files = {}
    #: Limits of the program.
    limits: Limits = Limits()
    #: Limits of the program's compiler.
    compile_limits: Limits = COMPILE_LIMITS


class ExecutionRequest(ProgramRequest):
    """One program to run once."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"code": "print(6 * 7)"}]})

    #: The program's standard input.
    stdin: str = ""
    #: Names of the files to bring back.
    fetch_files: FetchedNames = ()


class Compilation(Wire):
    """The result of a compilation. `cached`: the result is from an earlier request."""

    #: Whether there is a program to run.
    succeeded: bool
    #: The compiler's output.
    output: str = ""
    #: Time by the clock, in seconds.
    wall_time_s: float = 0.0
    #: Whether the sandbox ended the compiler because it took longer than `compile_limits` allow.
    out_of_time: bool = False
    #: Whether the result is from an earlier request.
    cached: bool = False


class ExecutionResult(Wire):
    """The run of a program. `peak_memory_bytes` is null if the host could not measure it."""

    #: How the program ended.
    status: Status
    #: The program's standard output.
    stdout: str = ""
    #: The bytes of standard output if they are not UTF-8; `stdout` then has replacement characters.
    raw_stdout: FileContent | None = None
    #: The program's standard error.
    stderr: str = ""
    #: Null if a signal or a limit ended the program.
    exit_code: int | None = None
    #: Processor time of the program, in seconds.
    cpu_time_s: float = 0.0
    #: Time by the clock, in seconds.
    wall_time_s: float = 0.0
    #: Seconds, to 0.1 s, in which the program neither computed nor waited for a core: it slept or
    #: waited for others.
    idle_time_s: float = 0.0
    #: The most memory at one time; null if the host could not measure it.
    peak_memory_bytes: int | None = None
    #: For people: what the status means here.
    message: str = ""
    #: Null for languages that have no compiler.
    compilation: Compilation | None = None
    #: The fetched files, by name.
    files: dict[str, FileContent] = {}
    #: Requested files that could not be fetched: the reason, by name.
    refused_files: dict[str, str] = {}
    #: The isolation between the program and the host.
    isolation: str


class Checker(Wire):
    """A program to decide if another program's output is right: sent as `code`, or `named`.

    The sandbox runs it as `checker input output answer`, with three files, after the program has
    ended and out of the program's reach. Exit code 0 means right, 1 or 2 wrong. If a Python checker
    raises, the output is wrong, provided the checker accepts the expected output. Any other ending
    decides nothing: the case is ungradable.
    """

    #: The program's text; or give `named`.
    code: str | None = None
    #: One of the ready-made checkers, see docs/sandbox.md.
    named: str | None = Field(default=None, max_length=100)
    #: The language of `code`.
    language: str = "python"
    #: Limits of the checker.
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _one_program(self) -> "Checker":
        if (self.code is None) == (self.named is None):
            raise ValueError("a checker has either code or named")
        return self


class TestRequest(ProgramRequest):
    """A program and its test cases. All cases must be of the same kind."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "code": "def double(x):\n    return x * 2",
                    "cases": [{"kind": "call", "function": "double", "args": [4], "expected": 8}],
                },
                {
                    "code": "print(int(input()) + 1)",
                    "cases": [{"kind": "stdin", "stdin": "1", "expected_stdout": "2"}],
                },
            ]
        }
    )

    __test__: ClassVar[bool] = False

    #: All of one kind.
    cases: Annotated[tuple[TestCase, ...], at_most(MAX_CASES)] = Field(min_length=1)
    #: Whether cases after a failed one are left out.
    stop_on_first_failure: bool = False
    #: Whether the sandbox may grade test code in the program's own process if nothing else can
    #: decide it. If false, such cases are ungradable.
    hackable: bool = True
    #: Decides stdin cases in place of their `compare`.
    checker: Checker | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "TestRequest":
        kinds = {case.kind for case in self.cases}
        if len(kinds) > 1:
            raise ValueError(f"cases must be of one kind, not {', '.join(sorted(kinds))}")
        if self.checker is not None and kinds != {"stdin"}:
            raise ValueError("a checker judges stdin cases only")
        return self


class CaseResult(Wire):
    """The result of a case. Its status is null if the case did not run after an earlier failure.

    Call and assert cases share a process: their `peak_memory_bytes` is the peak of the process
    until its end.
    """

    #: How the case ended; null if it did not run.
    status: Status | None
    #: For people: what was wrong.
    message: str = ""
    #: Time by the clock, in seconds.
    wall_time_s: float = 0.0
    #: Processor time, in seconds.
    cpu_time_s: float = 0.0
    #: The most memory at one time; null if unknown.
    peak_memory_bytes: int | None = None


class Grading(StrEnum):
    """The place of comparing answers: outside the program's process, or inside it (forgeable).

    `in_process` if any case had to run in the program's process, as `hackable` allows.
    """

    OUTSIDE = "outside"
    IN_PROCESS = "in_process"


class TestReport(Wire):
    """Results of all cases. `status` is accepted, or the status of the first case not accepted."""

    __test__: ClassVar[bool] = False

    #: Accepted if all cases are accepted, else the status of the first case not accepted.
    status: Status
    #: One result for each case, in order.
    cases: tuple[CaseResult, ...]
    #: Where answers were compared.
    grading: Grading
    #: Null for languages that have no compiler.
    compilation: Compilation | None = None
    #: The isolation between the program and the host.
    isolation: str

    @property
    def num_passed(self) -> int:
        return sum(case.status is Status.ACCEPTED for case in self.cases)

    @property
    def num_ungradable(self) -> int:
        return sum(case.status is Status.UNGRADABLE for case in self.cases)

    @property
    def pass_ratio(self) -> float:
        return self.num_passed / len(self.cases)
