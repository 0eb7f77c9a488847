"""Runs programs under plain CPython: `python main.py` in a new folder, with the limits of a slot.

They have the access rights of this process. Only run programs of published data sets here.
"""

import asyncio
import os
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from assay_sandbox.equivalence.subjects import RunOutcome, StdinTest, Subject
from assay_sandbox.execution.host import examine, find_packages
from assay_sandbox.execution.interpreter import make_interpreter
from assay_sandbox.settings import SandboxSettings
from assay_shared.types import Limits, Status

#: Sets the limits of its process and becomes the program. The stack limit equals a slot's. Signals
#: ignored in a shell's background job get their default action again.
_LAUNCHER = (
    'set -e; ulimit -c 0; ulimit -n 256; ulimit -s 65536; ulimit -t "$1"; ulimit -d "$2"; '
    'ulimit -f "$3"; shift 3; exec env --default-signal "$@"'
)
#: If this process is root: run the program as an ordinary user without a network, as in a slot.
_AS_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--net")
_CHUNK_BYTES = 65536
_CLOSE_TIMEOUT_S = 5.0
_LOOK_EVERY_S = 0.1
#: `ulimit -t` is this many times the CPU limit. The kernel counts whole ticks for it: on a busy
#: machine, several times the used time. So it is the last resort, for the program's children too;
#: normally `_wait` ends the program.
_SPARE = 5
_FILE_BLOCK_BYTES = 512
_SYNTAX = re.compile(rb"^(SyntaxError|IndentationError|TabError)\b", re.MULTILINE)
_TRACEBACK = b"Traceback (most recent call last):"
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


@contextmanager
def plain_interpreter(settings: SandboxSettings) -> Iterator[Path]:
    """Yield the path of the slots' interpreter, in a virtual environment with their packages."""
    host = examine(settings, has_namespaces=True)
    host.close()
    with tempfile.TemporaryDirectory(prefix="assay-plain-") as name:
        packages = find_packages(settings)
        made = make_interpreter(Path(name), host, packages, has_namespaces=False)
        yield made / "bin" / "python"


@dataclass(frozen=True)
class PlainRun:
    """The end of a process. `exit_code` is negative for a signal."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    cpu_time_s: float
    out_of_time: bool
    out_of_output: bool
    #: The folder of main.py.
    folder: str


@dataclass
class _Capture:
    """Reads a pipe to its end; kills the process group when the limit is reached."""

    fd: int
    limit_bytes: int
    process_group: int
    data: bytearray = field(default_factory=bytearray)
    overflowed: bool = False

    def read(self) -> None:
        with os.fdopen(self.fd, "rb", buffering=0) as pipe:
            while chunk := pipe.read(_CHUNK_BYTES):
                self.data += chunk[: self.limit_bytes - len(self.data)]
                if len(self.data) == self.limit_bytes and not self.overflowed:
                    self.overflowed = True
                    _kill_group(self.process_group)


class PlainPython:
    """Runs subjects with the slots' interpreter, a few at once.

    A text already run with the same input is not run again: scripts and judged programs share most
    runs.
    """

    def __init__(self, python: Path, limits: Limits, jobs: int) -> None:
        self._python = python
        self._prefix = _AS_USER if os.geteuid() == 0 and _works(_AS_USER) else ()
        self._limits = limits
        self._places = asyncio.Semaphore(jobs)
        self._known: dict[tuple[str, str], asyncio.Future[PlainRun]] = {}

    async def run(self, subject: Subject) -> RunOutcome:
        """Run a subject and return the outcome: of its run, or the verdict on each case."""
        match subject.way:
            case "script":
                return self._outcome(await self._end_of(subject.code, subject.stdin))
            case "stdin":
                return await self._judge_stdin(subject)
            case _:
                return await self._judge_assertions(subject)

    async def repeat(self, subject: Subject, hash_seed: str) -> RunOutcome:
        """Run a script again, even if its outcome is known, with another seed for hashes."""
        async with self._places:
            ended = await asyncio.to_thread(self._spawn, subject.code, subject.stdin, hash_seed)
        return self._outcome(ended)

    async def _end_of(self, code: str, stdin: str = "") -> PlainRun:
        key = (code, stdin)
        if key not in self._known:
            self._known[key] = asyncio.ensure_future(self._spawn_in_turn(code, stdin))
        return await self._known[key]

    async def _spawn_in_turn(self, code: str, stdin: str) -> PlainRun:
        async with self._places:
            return await asyncio.to_thread(self._spawn, code, stdin, "0")

    def _outcome(self, ended: PlainRun) -> RunOutcome:
        return RunOutcome(
            statuses=(script_status(ended),),
            exit_code=ended.exit_code,
            stdout=ended.stdout,
            stderr=ended.stderr,
            cpu_time_s=ended.cpu_time_s,
            folders=(ended.folder, str(Path(ended.folder).parent), str(self._python.parents[1])),
        )

    async def _judge_stdin(self, subject: Subject) -> RunOutcome:
        ended = [await self._end_of(subject.code, test.stdin) for test in subject.tests]
        statuses = [
            _stdin_status(one, test) for one, test in zip(ended, subject.tests, strict=True)
        ]
        return RunOutcome(tuple(statuses), cpu_time_s=max(one.cpu_time_s for one in ended))

    async def _judge_assertions(self, subject: Subject) -> RunOutcome:
        """Run all cases as a single script; if it fails, run each case as its own script."""
        whole = await self._end_of(script_of(subject.code, subject.cases))
        if whole.exit_code == 0 or len(subject.cases) == 1:
            status = _case_status(whole, subject.code)
            return RunOutcome((status,) * len(subject.cases), cpu_time_s=whole.cpu_time_s)
        ended = [await self._end_of(script_of(subject.code, (case,))) for case in subject.cases]
        return RunOutcome(
            tuple(_case_status(one, subject.code) for one in ended),
            cpu_time_s=max(one.cpu_time_s for one in ended),
        )

    def _spawn(self, code: str, stdin: str, hash_seed: str) -> PlainRun:
        with tempfile.TemporaryDirectory(prefix="assay-plain-") as name:
            folder = Path(name)
            work = folder / "work"
            work.mkdir()
            (work / "main.py").write_bytes(_encode(code))
            (folder / "stdin").write_bytes(_encode(stdin))
            environment = self._environment(folder, hash_seed)
            return self._watch(work, folder / "stdin", environment)

    def _environment(self, folder: Path, hash_seed: str) -> dict[str, str]:
        """Return the environment of programs in a slot, with this run's folders."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder / "work"),
            "TMPDIR": str(folder),
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": hash_seed,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }

    def _watch(self, work: Path, stdin: Path, environment: dict[str, str]) -> PlainRun:
        with _process(self._command(), work, stdin, environment) as process:
            captures = [
                _Capture(fd, self._limits.output_bytes + 1, process.pid)
                for fd in (_own_end(process.stdout), _own_end(process.stderr))
            ]
            readers = [threading.Thread(target=one.read, daemon=True) for one in captures]
            for reader in readers:
                reader.start()
            has_ended = _wait(process.pid, self._limits)
            _kill_group(process.pid)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            for reader in readers:
                reader.join(_CLOSE_TIMEOUT_S)
        cpu_time_s = usage.ru_utime + usage.ru_stime
        out_of_output = any(one.overflowed for one in captures)
        return PlainRun(
            exit_code=process.returncode,
            stdout=bytes(captures[0].data),
            stderr=bytes(captures[1].data),
            cpu_time_s=cpu_time_s,
            out_of_time=not has_ended or cpu_time_s > self._limits.cpu_time_s,
            out_of_output=out_of_output,
            folder=str(work),
        )

    def _command(self) -> list[str]:
        limits = (
            round(_SPARE * self._limits.cpu_time_s) + 1,
            self._limits.memory_bytes // 1024,
            self._limits.file_bytes // _FILE_BLOCK_BYTES,
        )
        python = [str(self._python), "-X", "utf8", "main.py"]
        return [*self._prefix, "/bin/sh", "-c", _LAUNCHER, "sh", *map(str, limits), *python]


def _works(prefix: tuple[str, ...]) -> bool:
    try:
        return subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def script_of(code: str, cases: tuple[str, ...]) -> str:
    """Return a single text: the program, then the test code of its cases."""
    return "\n".join((code, *cases)) + "\n"


def script_status(ended: PlainRun) -> Status:
    """Return the status of a program's end, by the table in docs/sandbox.md."""
    if ended.out_of_output:
        return Status.OUTPUT_LIMIT
    if ended.out_of_time:
        return Status.TIME_LIMIT
    if ended.exit_code == 0:
        return Status.ACCEPTED
    if ended.exit_code == 1 and _last_line(ended).startswith("MemoryError"):
        return Status.MEMORY_LIMIT
    # A text that does not parse leaves no traceback, since nothing of it has run.
    if ended.exit_code == 1 and _TRACEBACK not in ended.stderr and _SYNTAX.search(ended.stderr):
        return Status.SYNTAX_ERROR
    return Status.RUNTIME_ERROR


def _case_status(ended: PlainRun, code: str) -> Status:
    """Return the verdict of test code: a failed assertion in it is a wrong answer."""
    status = script_status(ended)
    if status is Status.RUNTIME_ERROR and _last_line(ended).startswith("AssertionError"):
        lines_of_program = len(_LINE_BREAK.split(code))
        return Status.WRONG_ANSWER if _failed_at(ended) > lines_of_program else status
    return status


def _failed_at(ended: PlainRun) -> int:
    """Return the module-level line of main.py in the traceback, or 0."""
    found = re.search(
        re.escape(ended.folder.encode()) + rb'/main.py", line (\d+), in <module>', ended.stderr
    )
    return int(found.group(1)) if found else 0


def _last_line(ended: PlainRun) -> str:
    """Return the last line of standard error with the name of an exception, or ""."""
    lines = [line for line in ended.stderr.decode(errors="replace").splitlines() if line]
    named = (line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception|Exit)\b", line))
    return next(named, "")


def _stdin_status(ended: PlainRun, test: StdinTest) -> Status:
    status = script_status(ended)
    if status is not Status.ACCEPTED or _lines(ended.stdout.decode(errors="replace")) == _lines(
        test.expected_stdout
    ):
        return status
    return Status.WRONG_ANSWER


def _lines(text: str) -> list[str]:
    """Return the lines without trailing whitespace, and without empty lines at the end."""
    return [line.rstrip() for line in text.rstrip().split("\n")]


@contextmanager
def _process(
    command: list[str], work: Path, stdin: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with stdin.open("rb") as source:
        process = subprocess.Popen(
            command,
            cwd=work,
            env=environment,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            _kill_group(process.pid)
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _own_end(pipe: object) -> int:
    return os.dup(pipe.fileno())  # type: ignore[attr-defined]  # Popen gives pipes here


def _wait(pid: int, limits: Limits) -> bool:
    """Return True if the process ended in time. It is not reaped, so its id is not reused."""
    pidfd = os.pidfd_open(pid)
    try:
        deadline = time.monotonic() + limits.wall_time_s
        while time.monotonic() < deadline and _cpu_time_s(pid) < limits.cpu_time_s:
            if select.select([pidfd], [], [], _LOOK_EVERY_S)[0]:
                return True
        return False
    finally:
        os.close(pidfd)


def _cpu_time_s(pid: int) -> float:
    """Return a process's CPU time, as the scheduler counts it: Linux's MAKE_PROCESS_CPUCLOCK."""
    return time.clock_gettime((~pid << 3) | 2)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
