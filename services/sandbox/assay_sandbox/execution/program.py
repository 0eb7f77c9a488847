"""Programs ready for a slot: their plans, the verdict on their runs, and the answer to a client."""

import glob
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from assay_sandbox.execution.run import RunResult, RunSpec
from assay_sandbox.languages.language import Language
from assay_shared.errors import SandboxFault
from assay_shared.types import Compilation, ExecutionResult, Limits, Status

#: Most bytes of all fetched files of a program together.
MAX_FETCHED_BYTES = 64 * 2**20
_DATA, _EXECUTABLE = 0o644, 0o755
_MESSAGE_BYTES = 2000


@dataclass(frozen=True)
class Program:
    """A program ready to run: a text for the harness's interpreter, or files and a command."""

    language: Language
    limits: Limits
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    text: str | None = None
    #: Content and mode by name.
    files: Mapping[str, tuple[bytes, int]] = field(default_factory=dict)

    def plan(
        self,
        stdin: str = "",
        fetch: tuple[str, ...] = (),
        *,
        num_cases: int = 0,
    ) -> RunSpec:
        """Return the plan for a slot. With cases, a grader asks for the program's names."""
        limits = self.limits.model_dump()
        memory_bytes = self.limits.memory_bytes + self.language.runtime_bytes
        return RunSpec(
            header={
                "limits": limits | {"memory_bytes": memory_bytes},
                "num_cases": num_cases,
                # True if a channel's descriptor is sent along.
                "has_channel": num_cases > 0,
            },
            body={
                "code": self.text,
                "command": [*self.command, *self.arguments] if self.command else [],
                "arguments": list(self.arguments),
                "files": dict(self.files),
                "limits": limits,
                "part": "program",
            },
            stdin=encode(stdin),
            wall_time_s=self.limits.wall_time_s,
            output_bytes=self.limits.output_bytes,
            fetch=fetch,
            fetch_bytes=MAX_FETCHED_BYTES,
        )


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def data_files(files: Mapping[str, bytes]) -> dict[str, tuple[bytes, int]]:
    return {name: (content, _DATA) for name, content in files.items()}


def executables(files: Mapping[str, bytes]) -> dict[str, tuple[bytes, int]]:
    return {name: (content, _EXECUTABLE) for name, content in files.items()}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the realtime signals have none
        return f"signal {number}"


@dataclass(frozen=True)
class Execution:
    """A run of a program: its end, its status, and a message on the status."""

    ending: RunResult
    status: Status
    message: str


@dataclass
class Records:
    """The harness's records of the program as a whole; `message` is for people."""

    status: Status | None = None
    message: str = ""
    begun: bool = False
    done: bool = False

    def take(self, line: bytes) -> None:
        kind, _, rest = line.partition(b" ")
        text = rest.decode(errors="replace")
        if kind == b"syntax":
            self.status, self.message = Status.SYNTAX_ERROR, text
        elif kind == b"crashed":
            self.status, self.message = Status.RUNTIME_ERROR, text
        elif kind == b"memory":
            self.status, self.message = Status.MEMORY_LIMIT, "out of memory"
        elif kind == b"begun":
            # A program that lost its slot is run again: forget the records of its first run.
            self.begun, self.status, self.message = True, None, ""
        elif kind == b"done":
            self.done = True


def status_of(ending: RunResult, records: Records, program: Program) -> tuple[Status | None, str]:
    """Return the status and message of a program's failure; None and "" if it succeeded.

    Raises:
        SandboxFault: the program never began.
    """
    limits = program.limits
    if ending.ended_its_slot:
        return Status.RUNTIME_ERROR, "the program ended its slot each time it was run"
    if ending.forged_records:
        return Status.RUNTIME_ERROR, "the program wrote to the channel of its results"
    if ending.out_of_output:
        return Status.OUTPUT_LIMIT, f"more than {limits.output_bytes} bytes of output"
    if ending.out_of_memory:
        return Status.MEMORY_LIMIT, "out of memory"
    if ending.out_of_time:
        return Status.TIME_LIMIT, f"more than {limits.wall_time_s} s of wall time"
    if ending.out_of_cpu:
        return Status.TIME_LIMIT, f"more than {limits.cpu_time_s} s of CPU time"
    if records.status is not None:
        return records.status, records.message
    if not records.begun:
        raise SandboxFault(f"a program never began: {ending.stderr.decode(errors='replace')}")
    if ending.exit_code == 0:
        return None, ""
    return _status_of_failure(ending, program.language)


def _status_of_failure(ending: RunResult, language: Language) -> tuple[Status, str]:
    """Return the status of a failed run; some runtimes name the failure only in their output."""
    said = (ending.stderr, ending.stdout)
    if language.out_of_memory is not None and any(map(language.out_of_memory.search, said)):
        return Status.MEMORY_LIMIT, "out of memory"
    if language.does_not_parse is not None and language.does_not_parse.search(ending.stderr):
        return Status.SYNTAX_ERROR, ending.stderr[:_MESSAGE_BYTES].decode(errors="replace").strip()
    if ending.exit_code < 0:
        return Status.RUNTIME_ERROR, f"killed by {_signal_name(-ending.exit_code)}"
    return Status.RUNTIME_ERROR, f"exit code {ending.exit_code}"


def to_result(
    run: Execution,
    isolation: str,
    compilation: Compilation | None,
    fetch: tuple[str, ...] = (),
) -> ExecutionResult:
    """Return the answer for a run; `fetch` are the requested files."""
    ending = run.ending
    stdout, raw_stdout = _to_text(ending.stdout)
    stderr, _ = _to_text(ending.stderr)
    found = {name: data for name, data in ending.files.items() if isinstance(data, bytes)}
    return ExecutionResult(
        status=run.status,
        stdout=stdout,
        raw_stdout=raw_stdout,
        stderr=stderr,
        exit_code=ending.exit_code,
        cpu_time_s=ending.cpu_time_s,
        wall_time_s=ending.wall_time_s,
        idle_time_s=ending.idle_time_s,
        peak_memory_bytes=ending.peak_memory_bytes,
        message=run.message,
        compilation=compilation,
        files=found,
        refused_files={
            name: str(
                ending.files.get(name)
                or ending.files.get(glob.escape(name), "there is no such file")
            )
            for name in fetch
            if name not in found
        },
        isolation=isolation,
    )


def _to_text(data: bytes) -> tuple[str, bytes | None]:
    """Return the bytes as text; and the bytes themselves, unless they are UTF-8."""
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return data.decode(errors="replace"), data
