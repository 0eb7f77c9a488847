"""Starting a program in a slot: its folder, its environment, its plan; and how a run ended."""

import marshal
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assay_sandbox import harness
from assay_sandbox.host import PYTHON_FLAGS, Host
from assay_sandbox.languages import find_language
from assay_sandbox.process import MARKER, Ending, Owner, Process, Start
from assay_shared.errors import SandboxFault
from assay_shared.types import Limits, Status

#: Readable by every interpreter this may run under.
_MARSHAL_VERSION = 2
_SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Source:
    """A program's text, and what it may use."""

    code: str
    language: str
    limits: Limits


@dataclass
class Records:
    """What the harness said of the program as a whole; `message` is for people."""

    status: Status | None = None
    message: str = ""
    done: bool = False
    peak_memory_bytes: int | None = None

    def take(self, line: bytes) -> None:
        kind, _, rest = line.partition(b" ")
        text = rest.decode(errors="replace")
        if kind == b"syntax":
            self.status, self.message = Status.SYNTAX_ERROR, text
        elif kind == b"crashed":
            self.status, self.message = Status.RUNTIME_ERROR, text
        elif kind == b"memory":
            self.status, self.message = Status.MEMORY_LIMIT, "out of memory"
        elif kind == b"done":
            self.done = True
        elif kind == b"peak" and rest.isdigit():
            self.peak_memory_bytes = int(rest)


class Launcher:
    """Starts programs in slots of this host."""

    def __init__(self, host: Host, work_folder: Path | None) -> None:
        self._host = host
        self._work_folder = work_folder
        self._harness = Path(harness.__file__).read_text()

    @contextmanager
    def folder(self, slot: int) -> Iterator[Path]:
        """A temporary folder of the slot's user; gone afterwards with all that is in it."""
        try:
            path = Path(tempfile.mkdtemp(prefix="assay-", dir=self._work_folder))
        except OSError as error:
            raise SandboxFault(f"cannot make a folder for a program: {error}") from error
        try:
            uid = self._uid(slot)
            if uid is not None:
                shutil.chown(path, uid, uid)
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def start(
        self,
        slot: int,
        folder: Path,
        source: Source,
        *,
        stdin: bytes = b"",
        cases: tuple[dict[str, object], ...] = (),
        on_record: Callable[[Process, bytes], None],
    ) -> Process:
        """Start a program; with `cases`, the harness runs them after it."""
        language = find_language(source.language)
        uid = self._uid(slot)
        marker = uuid.uuid4().hex
        environment = {
            "PATH": _SEARCH_PATH,
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            MARKER: marker,
        }
        plan = {
            "code": source.code,
            "command": list(language.command),
            "cases": list(cases),
            "limits": source.limits.model_dump(),
            "uid": uid,
            "env": environment,
        }
        _write_source(folder / language.source, source.code)
        return Process(
            Start(
                command=(self._host.python, *PYTHON_FLAGS, "-c", self._harness),
                folder=folder,
                environment=environment,
                stdin=stdin,
                plan=marshal.dumps(plan, _MARSHAL_VERSION),
                owner=Owner(marker, uid),
            ),
            wall_time_s=source.limits.wall_time_s,
            output_bytes=source.limits.output_bytes,
            on_record=on_record,
        )

    def _uid(self, slot: int) -> int | None:
        return None if self._host.first_uid is None else self._host.first_uid + slot


def _write_source(path: Path, code: str) -> None:
    try:
        path.write_bytes(code.encode("utf-8", "surrogatepass"))
        path.chmod(0o644)
    except OSError as error:
        raise SandboxFault(f"cannot write a program: {error}") from error


def status_of(ending: Ending, records: Records, limits: Limits) -> tuple[Status | None, str]:
    """Why a process ended badly, and a word on it; None if it did not."""
    if ending.out_of_output:
        return Status.OUTPUT_LIMIT, f"more than {limits.output_bytes} bytes of output"
    if ending.out_of_time:
        return Status.TIME_LIMIT, f"more than {limits.wall_time_s} s of wall time"
    used_up = ending.cpu_time_s >= limits.cpu_time_s  # SIGXCPU may be caught, the SIGKILL after not
    if ending.exit_code == -signal.SIGXCPU or (ending.exit_code == -signal.SIGKILL and used_up):
        return Status.TIME_LIMIT, f"more than {limits.cpu_time_s} s of CPU time"
    if records.status is not None:
        return records.status, records.message
    if ending.exit_code < 0:
        return Status.RUNTIME_ERROR, f"killed by {signal.Signals(-ending.exit_code).name}"
    if ending.exit_code > 0:
        return Status.RUNTIME_ERROR, f"exit code {ending.exit_code}"
    return None, ""
