"""The program's own process: it runs the program and its cases, after all rights are given up.

The server writes a marshalled plan to a descriptor and reads records, a line each, from another:

    begun                       everything from here on is the program's own doing
    syntax <text>               the program does not parse
    crashed <type>: <text>      the program raised before any case could run
    memory                      the program asked for more memory than its limit

A program with cases is loaded, and then serves its names to a grader in another slot (`remote`).
The program shares this process and can forge any of these records: they report no more than its
failure.
"""

import _random
import builtins
import io
import marshal
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, TextIO

from assay_sandbox.slot.program import ending, files, frames

# A program may change these: the code after the program has its own copies.
globals()["__builtins__"] = vars(builtins).copy()
_own_pid, _write = os.getpid, os.write
_settrace, _setprofile = sys.settrace, sys.setprofile

MAX_TEXT = 400
#: Exit status of a process in which the program never began.
NOT_STARTED = 125
#: Fork hooks of imported modules: arguments of `os.register_at_fork`.
FORK_HOOKS: list[dict[str, Any]] = []
#: Roles of a process other than a program, and "served", which hands a program's names to a grader.
#: Filled before programs run: a fork can import nothing of this package.
PARTS: dict[str, Callable[..., Any]] = {}
#: File name of a program's text, in its start folder.
SCRIPT = "main.py"
_CHUNK_BYTES = 2**16
#: The interpreter adapts code after eight runs, and then needs to see it run.
_NUM_REHEARSALS = 32


def run(plan_fd: int, record_fd: int, channel_fd: int | None) -> int:
    """Run the program; return its exit status, unless another file is executed instead.

    `channel_fd` connects a session to the server, or a program with cases to its grader.
    """
    plan = marshal.loads(read_whole(plan_fd))
    files.put(plan["files"])
    file_bytes = plan["limits"]["file_bytes"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if plan["command"]:
        os.write(record_fd, b"begun\n")
        os.set_inheritable(record_fd, False)
        os.execvpe(plan["command"][0], plan["command"], os.environ)
    settle()
    if plan["part"] in PARTS:
        return int(PARTS[plan["part"]](plan, record_fd, channel_fd))
    text = plan["code"].encode("utf-8", "surrogatepass")
    path = f"{os.getcwd()}/{SCRIPT}"
    if SCRIPT not in plan["files"]:
        put_script(path, text)
    arguments = [SCRIPT, *plan["arguments"]]
    if channel_fd is not None:
        names = become_main(path, arguments)
        os.write(record_fd, b"begun\n")
        return Judged(channel_fd, record_fd, names).run(text, path)
    del plan
    os.write(record_fd, b"begun\n")
    return be_program(text, path, arguments, record_fd)


def be_program(text: bytes, path: str, arguments: list[str], record_fd: int) -> int:
    """Run a program's text to the end of its process; return the exit status."""
    pid = _own_pid()
    names = become_main(path, arguments)
    outcome = load(text, path, names)
    if not outcome.has_exited:
        for name in ("__file__", "__cached__"):
            names.pop(name, None)  # as the interpreter does, before exit handlers run
    del names  # the last reference to the program's module but the interpreter's
    status = ending.end(outcome.status)
    # Written last: an exit handler may end the process first. The program's forks write nothing.
    if outcome.record and _own_pid() == pid:
        ending.quietly(lambda: write_record(record_fd, outcome.record))  # unless it is closed
    if outcome.is_interrupted:
        ending.die_of_interrupt()
    return status


def read_whole(fd: int) -> bytes:
    """Return the content of an in-memory file, read from its start, and close it."""
    parts = []
    while part := os.read(fd, _CHUNK_BYTES):
        parts.append(part)
    os.close(fd)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def rehearse() -> None:
    """Run an empty program until the interpreter has adapted the code for running programs.

    An adaptation in a fork is lost with the fork, and writes to memory shared until then.
    """
    kept = sys.modules["__main__"], sys.path[0], sys.argv, sys.orig_argv
    path = f"{os.getcwd()}/{SCRIPT}"
    for _ in range(_NUM_REHEARSALS):
        ending.prepare_begin()
        _seed()
        load(b"pass", path, become_main(path, [SCRIPT]))
        ending.rehearse()
    sys.modules["__main__"], sys.path[0], sys.argv, sys.orig_argv = kept


def settle() -> None:
    """Undo the differences between a fork of a warm interpreter and a fresh interpreter.

    Uses C functions if they exist: Python code would be copied page by page. `threading` and
    `random` are not imported above, because their hooks would then run in every fork.
    """
    for hooks in FORK_HOOKS:
        os.register_at_fork(**hooks)
    _seed()


def _seed() -> None:
    modules = sys.modules
    _random.Random.seed(modules["random"]._inst)  # otherwise all forks share a state
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    modules["threading"]._main_thread._native_id = os.getpid()


def settle_interpreter(home: str) -> None:
    """Set up the interpreter's appearance for programs: in a slot its folder is `home`.

    For the parent process of all slots. After this, nothing of this package can be imported.
    """
    for path in [path for path in sys.path_importer_cache if not path.startswith(sys.base_prefix)]:
        del sys.path_importer_cache[path]
    sys.path[:] = [path.replace(sys.prefix, home, 1) for path in sys.path]
    sys.executable = sys.executable.replace(sys.prefix, home, 1)
    sys.prefix = sys.exec_prefix = home
    sys.dont_write_bytecode = False
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in [name for name in sys.modules if name.partition(".")[0] == "assay_sandbox"]:
        del sys.modules[name]
    ending.remember_warm([SourceFileLoader, ProgramOutcome])
    frames.find_thread()


def put_script(path: str, text: bytes) -> None:
    """Write the program's text to its file, for its own tracebacks and its children."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        os.write(fd, text)
        os.close(fd)
    except OSError:
        return  # the folder is too small for the text: the program runs all the same


def become_main(path: str | None, arguments: list[str]) -> dict[str, Any]:
    """Make a new `__main__` as the interpreter does, for a script or no file; return its names."""
    main = ModuleType("__main__")
    names = main.__dict__
    names["__annotations__"] = {}
    names["__builtins__"] = builtins
    if path is not None:
        names["__loader__"] = SourceFileLoader("__main__", path)
        names["__file__"] = path
        names["__cached__"] = None
    sys.modules["__main__"] = main
    sys.path[0] = "" if path is None else path[: -len(SCRIPT) - 1]
    sys.argv = arguments
    sys.orig_argv = [sys.executable, "-X", "utf8", *arguments]
    return names


@dataclass(frozen=True)
class ProgramOutcome:
    """Outcome of a program's text: its exit status, and the record for the server."""

    status: int = 0
    record: str = ""
    is_interrupted: bool = False
    has_exited: bool = False


def load(text: bytes, path: str, names: dict[str, Any], *, may_exit: bool = True) -> ProgramOutcome:
    """Run a program's text as `__main__`; return its outcome.

    Uncaught exceptions are shown as by the interpreter. Without `may_exit`, SystemExit is a crash
    as well: nothing could run after it.
    """
    try:
        code = compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, OverflowError) as error:
        return ProgramOutcome(ending.report(error), "syntax " + describe(error))
    except MemoryError as error:
        return ProgramOutcome(ending.report(error), "syntax the program nests too deeply")
    try:
        try:
            frames.alone(exec, code, names)
        finally:  # otherwise the program's trace functions would see our calls
            _settrace(None)
            _setprofile(None)
    except SystemExit as error:
        status = ending.exit_status(error)
        return ProgramOutcome(
            status, "" if may_exit else "crashed " + describe(error), has_exited=True
        )
    except MemoryError as error:
        return ProgramOutcome(ending.report(error), "memory")
    except BaseException as error:
        record = "crashed " + describe(error)
        status = ending.report(error)
        # An `excepthook` of the program may end the program with status 0.
        return ProgramOutcome(status, record if status else "", type(error) is KeyboardInterrupt)
    return ProgramOutcome()


def prepare_streams() -> None:
    """Open the standard streams once, as in every fork: on an in-memory file and two pipes."""
    saved = [os.dup(fd) for fd in range(3)]
    reader, writer = os.pipe()
    memory = os.memfd_create("stdin")
    for target, fd in enumerate((memory, writer, writer)):
        os.dup2(fd, target)
    sys.stdin, sys.stdout, sys.stderr = open_streams(0, 1, 2)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    for target, fd in enumerate(saved):
        os.dup2(fd, target)
    for fd in (*saved, reader, writer, memory):
        os.close(fd)


def open_streams(stdin: int, stdout: int, stderr: int) -> tuple[TextIO, TextIO, TextIO]:
    """Return streams opened as by the interpreter: UTF-8, with invalid bytes kept as they are."""
    return (
        open_stream(stdin, "stdin", "r", "surrogateescape"),
        open_stream(stdout, "stdout", "w", "surrogateescape"),
        open_stream(stderr, "stderr", "w", "backslashreplace"),
    )


def open_stream(fd: int, name: str, mode: str, errors: str) -> TextIO:
    binary = open(fd, mode + "b", closefd=False)  # noqa: SIM115  # open as long as the process
    binary.raw.name = f"<{name}>"  # type: ignore[attr-defined]
    is_error = name == "stderr"
    text = io.TextIOWrapper(binary, "utf-8", errors, "\n", line_buffering=is_error)
    text.mode = mode  # type: ignore[misc]
    return text


def round_up(seconds: float) -> int:
    """Return whole seconds, rounded up: CPU limits have no fractions."""
    return -int(-seconds // 1)


def write_record(record_fd: int, text: str) -> None:
    _write(record_fd, (text + "\n").encode("utf-8", "backslashreplace"))


class Judged:
    """A program with its names served to a grader, once the program's text has run."""

    def __init__(self, channel_fd: int, record_fd: int, names: dict[str, Any]) -> None:
        self.channel_fd = channel_fd
        self.record_fd = record_fd
        self.names = names

    def run(self, text: bytes, path: str) -> int:
        pid = os.getpid()
        outcome = load(text, path, self.names, may_exit=False)
        if os.getpid() != pid:
            return ending.end(outcome.status)  # a fork: the program itself serves its names
        if outcome.record:
            write_record(self.record_fd, outcome.record)
        else:
            PARTS["served"](self.names, self.channel_fd)
        # End here with a flush only: no exit handler of the program may run after its verdict.
        ending.flush()
        return outcome.status


def describe(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())[:MAX_TEXT]
    except BaseException:
        text = ""
    return "%s: %s" % (type(error).__name__, text)
