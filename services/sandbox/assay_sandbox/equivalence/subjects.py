"""Subjects (a program and a way to run it) and the outcomes of their runs."""

from dataclasses import dataclass
from typing import Literal

from assay_shared.types import Limits, Status

#: The way to run a subject: as a script, or judged by cases of a kind.
Way = Literal["script", "stdin", "assert", "assert outside"]
WAYS: tuple[Way, ...] = ("script", "stdin", "assert", "assert outside")

#: Statuses of a program ended by a limit, at a moment that depends on the machine.
LIMITS = (Status.TIME_LIMIT, Status.MEMORY_LIMIT, Status.OUTPUT_LIMIT)


@dataclass(frozen=True)
class StdinTest:
    """The input of a program and its expected output."""

    stdin: str
    expected_stdout: str


@dataclass(frozen=True)
class Subject:
    """A program of a data set, and a way to run it.

    A `script` reads `stdin` and runs to its end. The other ways are judged: `stdin` by `tests`, and
    `assert` by `cases` (test code to run after the program). `assert outside` has the same test
    code with `hackable: false`.
    """

    id: str
    corpus: str
    way: Way
    code: str
    stdin: str = ""
    cases: tuple[str, ...] = ()
    tests: tuple[StdinTest, ...] = ()


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run. A script has one status, a judged program one for each case.

    `exit_code` is None for a judged program. `messages` explain the statuses to people.
    """

    statuses: tuple[str, ...]
    exit_code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    cpu_time_s: float = 0.0
    messages: tuple[str, ...] = ()
    grading: str = ""
    #: The folders of the program and its interpreter; known for plain Python only.
    folders: tuple[str, ...] = ()

    @property
    def is_cut_short(self) -> bool:
        return any(status in LIMITS for status in self.statuses)


def aspects_that_differ(plain: RunOutcome, slot: RunOutcome) -> tuple[str, ...]:
    """Return the unequal aspects, among `status`, `exit status` and `stdout`.

    If the same limit ended both, only the statuses are compared: the amount of output until then
    depends on the machine.
    """
    if plain.statuses != slot.statuses:
        found = ["status"]
    elif plain.is_cut_short:
        return ()
    else:
        found = []
    if plain.exit_code != slot.exit_code:
        found.append("exit status")
    if plain.stdout != slot.stdout:
        found.append("stdout")
    return tuple(found)


def limits_of(cpu_time_s: float) -> Limits:
    """Return the limits of both ways. Wall time is generous: a busy machine must not decide."""
    return Limits(
        cpu_time_s=cpu_time_s,
        wall_time_s=min(600.0, 10 * cpu_time_s + 30),
        memory_bytes=2**30,
        output_bytes=8 * 2**20,
        file_bytes=64 * 2**20,
        processes=64,
    )
