"""Runs inside a program's own process: the program, and its cases, after all rights are given up.

The server writes a marshalled plan to one descriptor and reads records, a line each, from another:

    begun                       whatever comes now is the program's own doing
    syntax <text>               the program does not parse
    crashed <type>: <text>      it raised before any case could run
    memory                      it asked for more memory than its limit
    start <case>                the case has begun: its time counts from here
    cpu <seconds>               CPU time of the case whose record comes next
    value <case> <json>         what the call returned, type-tagged
    passed <case>               the assertion held
    failed <case> <text>        the assertion did not hold
    raised <case> <type>: <text>
    done                        every case was run

The program shares this process and can forge any of it except what decides a call case: the
expected value, which is compared outside.
"""

import _random
import builtins
import io
import marshal
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, TextIO

from assay_sandbox.slot import ending, files, frames

MAX_DEPTH = 60
MAX_TEXT = 400
#: Exit status of a process in which the program never began.
NOT_STARTED = 125
#: What imported modules want done in forks: arguments of `os.register_at_fork`.
FORK_HOOKS: list[dict[str, Any]] = []
#: What runs a session: put here by the module that imports this one.
SESSION: list[Callable[[dict[str, Any], int, int], int]] = []
#: What a program's text is called, in the folder where it starts.
SCRIPT = "main.py"
_CHUNK_BYTES = 2**16


def run(plan_fd: int, record_fd: int, channel_fd: int | None) -> int:
    """Be the program; its exit status, where it is not another file that is executed.

    `channel_fd` is a session's line to the server.
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
    if channel_fd is not None:
        return SESSION[0](plan, record_fd, channel_fd)
    text = plan["code"].encode("utf-8", "surrogatepass")
    path = f"{os.getcwd()}/{SCRIPT}"
    if SCRIPT not in plan["files"]:
        put_script(path, text)
    arguments = [SCRIPT, *plan["arguments"]]
    if plan["cases"]:
        names = become_main(path, arguments)
        os.write(record_fd, b"begun\n")
        return Judged(plan, record_fd, names).run(text, path)
    del plan
    os.write(record_fd, b"begun\n")
    return be_program(text, path, arguments, record_fd)


def be_program(text: bytes, path: str, arguments: list[str], record_fd: int) -> int:
    """Run a program's text to the end of its process; the exit status."""
    pid = os.getpid()
    names = become_main(path, arguments)
    outcome = load(text, path, names)
    if not outcome.has_exited:
        for name in ("__file__", "__cached__"):
            names.pop(name, None)  # as the interpreter does, before exit handlers run
    del names  # the last that holds the program's module but the interpreter
    status = ending.end(outcome.status)
    # Last: what its exit handlers do with the process decides. Its own forks have no say.
    if outcome.record and os.getpid() == pid:
        with suppress(OSError):  # it has closed what it found
            write_record(record_fd, outcome.record)
    if outcome.is_interrupted:
        ending.die_of_interrupt()
    return status


def read_whole(fd: int) -> bytes:
    """Read a file in memory from its start, and close it."""
    parts = []
    while part := os.read(fd, _CHUNK_BYTES):
        parts.append(part)
    os.close(fd)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def settle() -> None:
    """Undo what a fork of a warm interpreter has that a fresh one has not.

    By calls of C where there are any: Python code would be copied page by page. `threading` and
    `random` are not imported above, because their hooks would then run in every fork.
    """
    modules = sys.modules
    for hooks in FORK_HOOKS:
        os.register_at_fork(**hooks)
    _random.Random.seed(modules["random"]._inst)  # else all forks have one state
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    modules["threading"]._main_thread._native_id = os.getpid()


def settle_interpreter(home: str) -> None:
    """Make the interpreter look as programs are to see it: its folder is `home` in a slot.

    For the process that slots are forks of. Nothing of this package can be imported from here on.
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
    ending.remember_warm()
    frames.find_thread()


def put_script(path: str, text: bytes) -> None:
    """Write the program's text where its own tracebacks, and its children, look for it."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        os.write(fd, text)
        os.close(fd)
    except OSError:
        return  # its folder is too small for it: it runs all the same


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
class Outcome:
    """How a program's text ended: its exit status, and what the server is told of it."""

    status: int = 0
    record: str = ""
    is_interrupted: bool = False
    has_exited: bool = False


def load(text: bytes, path: str, names: dict[str, Any], *, may_exit: bool = True) -> Outcome:
    """Run a program's text as `__main__`. What it does not catch is shown as the interpreter does.

    Where it may not, SystemExit is a crash as well: nothing could be run after it.
    """
    try:
        code = compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, OverflowError) as error:
        return Outcome(ending.report(error), "syntax " + describe(error))
    except MemoryError as error:
        return Outcome(ending.report(error), "syntax the program nests too deeply")
    try:
        frames.alone(exec, code, names)
    except SystemExit as error:
        status = ending.exit_status(error)
        return Outcome(status, "" if may_exit else "crashed " + describe(error), has_exited=True)
    except MemoryError as error:
        return Outcome(ending.report(error), "memory")
    except BaseException as error:
        record = "crashed " + describe(error)
        status = ending.report(error)
        # An `excepthook` of the program may end it well.
        return Outcome(status, record if status else "", type(error) is KeyboardInterrupt)
    return Outcome()


def prepare_streams() -> None:
    """Open the standard streams once, on what they will be in every fork: a file and two pipes."""
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
    """As the interpreter opens them: UTF-8, with bytes that are none kept as they are."""
    return (
        open_stream(stdin, "stdin", "r", "surrogateescape"),
        open_stream(stdout, "stdout", "w", "surrogateescape"),
        open_stream(stderr, "stderr", "w", "backslashreplace"),
    )


def open_stream(fd: int, name: str, mode: str, errors: str) -> TextIO:
    binary = open(fd, mode + "b", closefd=False)  # noqa: SIM115  # as long as the process
    binary.raw.name = f"<{name}>"  # type: ignore[attr-defined]
    is_error = name == "stderr"
    text = io.TextIOWrapper(binary, "utf-8", errors, "\n", line_buffering=is_error)
    text.mode = mode  # type: ignore[misc]
    return text


def round_up(seconds: float) -> int:
    """CPU limits are whole seconds."""
    return -int(-seconds // 1)


def write_record(record_fd: int, text: str) -> None:
    os.write(record_fd, (text + "\n").encode("utf-8", "backslashreplace"))


class Judged:
    """A program that is asked for its cases once its text has run."""

    def __init__(self, plan: dict[str, Any], record_fd: int, names: dict[str, Any]) -> None:
        self.plan = plan
        self.record_fd = record_fd
        self.cpu_started_s = 0.0
        self.namespace = names

    def run(self, text: bytes, path: str) -> int:
        outcome = load(text, path, self.namespace, may_exit=False)
        if outcome.record:
            self.record(outcome.record)
        else:
            self.run_cases()
        # Here and now: no exit handler of the program runs after its verdict.
        ending.flush()
        return outcome.status

    def run_cases(self) -> None:
        for index, case in enumerate(self.plan["cases"]):
            self.start(index)
            if not self.try_case(index, case):
                return
        self.record("done")

    def record(self, text: str) -> None:
        write_record(self.record_fd, text)

    def start(self, index: int) -> None:
        self.cpu_started_s = time.process_time()
        until = round_up(self.cpu_started_s + self.plan["limits"]["cpu_time_s"])
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (min(until, hard), hard))
        self.record("start %d" % index)

    def try_case(self, index: int, case: dict[str, Any]) -> bool:
        """Run one case and record how it went; false if the process is not worth going on with."""
        try:
            if "function" in case:
                function = self.namespace[case["function"]]
                self.answer("value", index, encode(function(*case["args"])))
            elif "expression" in case:
                exec(case["setup"], self.namespace)
                found = eval(case["expression"], self.namespace)
                self.answer("value", index, encode(found))
            else:
                exec(compile(case["code"], "test.py", "exec", dont_inherit=True), self.namespace)
                self.answer("passed", index)
        except MemoryError:
            self.record("memory")
            return False
        except KeyError as error:
            missing = "function" in case and case["function"] not in self.namespace
            text = "NameError: no function " + case["function"] if missing else describe(error)
            self.answer("raised", index, text)
        except AssertionError as error:
            kind = "failed" if "code" in case else "raised"
            self.answer(kind, index, describe(error))
        except BaseException as error:
            self.answer("raised", index, describe(error))
        return True

    def answer(self, kind: str, index: int, text: str = "") -> None:
        took_s = time.process_time() - self.cpu_started_s
        self.record("cpu %.6f\n%s %d %s" % (took_s, kind, index, text))


def describe(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())[:MAX_TEXT]
    except BaseException:
        text = ""
    return "%s: %s" % (type(error).__name__, text)


def encode(value: Any, depth: int = 0) -> str:
    """JSON with types: exact built-in types only, so that no method of the program's is called."""
    from _json import encode_basestring_ascii as quote

    if depth > MAX_DEPTH:
        raise ValueError("the value returned nests too deeply")
    kind = type(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return repr(value) if -(2**53) < value < 2**53 else '{"int":"%x"}' % value
    if kind is float:
        plain = value - value == 0.0
        return repr(value) if plain else '{"float":"%r"}' % value
    if kind is str:
        return quote(value)
    if kind is list:
        return "[" + ",".join([encode(item, depth + 1) for item in value]) + "]"
    if kind in (tuple, set, frozenset):
        items = ",".join([encode(item, depth + 1) for item in value])
        return '{"%s":[%s]}' % ("tuple" if kind is tuple else "set", items)
    if kind is dict:
        pairs = ["[%s,%s]" % (encode(k, depth + 1), encode(v, depth + 1)) for k, v in value.items()]
        return '{"dict":[%s]}' % ",".join(pairs)
    return '{"other":%s}' % quote(kind.__name__)
