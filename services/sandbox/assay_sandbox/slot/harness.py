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

import marshal
import os
import resource
import sys
import time
from typing import Any, TextIO

from assay_sandbox.slot import files

MAX_DEPTH = 60
MAX_TEXT = 400
#: Exit status of a process in which the program never began.
NOT_STARTED = 125
#: What imported modules want done in forks: arguments of `os.register_at_fork`.
FORK_HOOKS: list[dict[str, Any]] = []
_EXIT_HANDLERS_FAILED = 120


def run(plan_fd: int, record_fd: int, channel_fd: int | None) -> int:
    """Be the program; its exit status, where it is not another file that is executed.

    `channel_fd` is a session's line to the server.
    """
    with os.fdopen(plan_fd, "rb") as file:
        plan = marshal.load(file)
    files.put(plan["files"])
    file_bytes = plan["limits"]["file_bytes"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if plan["command"]:
        os.write(record_fd, b"begun\n")
        os.set_inheritable(record_fd, False)
        os.execvpe(plan["command"][0], plan["command"], os.environ)
    import random

    random.seed()  # a fork has the state of every other one
    for hooks in FORK_HOOKS:
        os.register_at_fork(**hooks)
    if channel_fd is not None:
        from assay_sandbox.slot import cells

        return cells.run(plan, record_fd, channel_fd)
    os.write(record_fd, b"begun\n")
    return Program(plan, record_fd).run()


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
        open(stdin, encoding="utf-8", errors="surrogateescape", closefd=False),
        open(stdout, "w", encoding="utf-8", errors="surrogateescape", closefd=False),
        open(stderr, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1),
    )


def round_up(seconds: float) -> int:
    """CPU limits are whole seconds."""
    return -int(-seconds // 1)


class Program:
    """The program's text, its namespace, and the line to the server."""

    def __init__(self, plan: dict[str, Any], record_fd: int) -> None:
        self.plan = plan
        self.record_fd = record_fd
        self.cpu_started_s = 0.0
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        sys.argv = ["main.py", *plan["arguments"]]
        self.namespace = module.__dict__

    def run(self) -> int:
        try:
            status = 0 if self.load() else 1
        except SystemExit as error:
            status = exit_status(error)
        if not self.plan["cases"]:
            return self.leave_slowly(status)
        if status == 0:
            self.run_cases()
        # Here and now: no exit handler of the program runs after its verdict.
        return flush(status)

    def leave_slowly(self, status: int) -> int:
        """End as a program does by itself: threads are awaited, exit handlers run."""
        import atexit
        import threading

        try:
            threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter calls
            atexit._run_exitfuncs()
        except SystemExit as error:
            status = exit_status(error)
        except BaseException as error:
            show(error)
            status = status or _EXIT_HANDLERS_FAILED
        return flush(status)

    def run_cases(self) -> None:
        for index, case in enumerate(self.plan["cases"]):
            self.start(index)
            if not self.try_case(index, case):
                return
        self.record("done")

    def record(self, text: str) -> None:
        os.write(self.record_fd, (text + "\n").encode("utf-8", "backslashreplace"))

    def load(self) -> bool:
        """Run the program itself; false if it cannot be."""
        try:
            code = compile(self.plan["code"], "main.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, OverflowError) as error:
            return self.refuse("syntax " + describe(error), error)
        except MemoryError as error:
            return self.refuse("syntax the program nests too deeply", error)
        try:
            exec(code, self.namespace)
        except SystemExit as error:
            if not self.plan["cases"]:
                raise
            return self.refuse("crashed " + describe(error), error)
        except MemoryError as error:
            return self.refuse("memory", error)
        except BaseException as error:
            return self.refuse("crashed " + describe(error), error)
        return True

    def refuse(self, text: str, error: BaseException) -> bool:
        self.record(text)
        show(error)
        return False

    def start(self, index: int) -> None:
        self.cpu_started_s = time.process_time()
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


def exit_status(error: SystemExit) -> int:
    """Of sys.exit(code): a number is the status; anything else is shown, and fails."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return int(error.code) & 0xFF
    sys.stderr.write("%s\n" % (error.code,))
    return 1


def flush(status: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            status = status or _EXIT_HANDLERS_FAILED
    return status


def describe(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())[:MAX_TEXT]
    except BaseException:
        text = ""
    return "%s: %s" % (type(error).__name__, text)


def show(error: BaseException) -> None:
    """The traceback on standard error, without this file's frames."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    sys.__excepthook__(type(error), error.with_traceback(frames), frames)


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
