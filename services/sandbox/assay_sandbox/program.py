"""What a slot is told to run, and how a run ended."""

import signal
from dataclasses import dataclass

from assay_sandbox.languages import LANGUAGES
from assay_sandbox.run import Ending, Plan
from assay_shared.errors import SandboxFault
from assay_shared.types import Limits, Status


@dataclass(frozen=True)
class Source:
    """A program's text, in a language that this host has, and what it may use."""

    code: str
    language: str
    limits: Limits

    def plan(self, stdin: str = "", cases: tuple[dict[str, object], ...] = ()) -> Plan:
        """For a slot. With `cases`, the harness runs them after the program."""
        language = LANGUAGES[self.language]
        limits = self.limits.model_dump()
        return Plan(
            header={"limits": limits, "num_cases": len(cases)},
            body={
                # Text for the harness to compile, bytes for a file.
                "code": _encode(self.code) if language.command else self.code,
                "command": list(language.command),
                "source": language.source,
                "cases": list(cases),
                "limits": limits,
            },
            stdin=_encode(stdin),
            wall_time_s=self.limits.wall_time_s,
            output_bytes=self.limits.output_bytes,
        )


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@dataclass
class Records:
    """What the harness said of the program as a whole; `message` is for people."""

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
            self.begun = True
        elif kind == b"done":
            self.done = True


def status_of(ending: Ending, records: Records, limits: Limits) -> tuple[Status | None, str]:
    """Why a program ended badly, and a word on it; None if it did not.

    Raises:
        SandboxFault: it never began.
    """
    if ending.out_of_output:
        return Status.OUTPUT_LIMIT, f"more than {limits.output_bytes} bytes of output"
    if ending.out_of_memory:
        return Status.MEMORY_LIMIT, "out of memory"
    if ending.out_of_time:
        return Status.TIME_LIMIT, f"more than {limits.wall_time_s} s of wall time"
    used_up = ending.cpu_time_s >= limits.cpu_time_s  # SIGXCPU may be caught, the SIGKILL after not
    if ending.exit_code == -signal.SIGXCPU or (ending.exit_code == -signal.SIGKILL and used_up):
        return Status.TIME_LIMIT, f"more than {limits.cpu_time_s} s of CPU time"
    if records.status is not None:
        return records.status, records.message
    if not records.begun:
        raise SandboxFault(f"a program never began: {ending.stderr.decode(errors='replace')}")
    if ending.exit_code < 0:
        return Status.RUNTIME_ERROR, f"killed by {signal.Signals(-ending.exit_code).name}"
    if ending.exit_code > 0:
        return Status.RUNTIME_ERROR, f"exit code {ending.exit_code}"
    return None, ""
