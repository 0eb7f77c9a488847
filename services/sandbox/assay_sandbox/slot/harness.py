"""Runs inside a program's own process: the program, and its cases, after all rights are given up.

The server writes a marshalled plan to one descriptor and reads records, a line each, from another:

    begun                       whatever comes now is the program's own doing
    syntax <text>               the program does not parse
    crashed <type>: <text>      it raised before any case could run
    memory                      it asked for more memory than its limit

A program with cases is loaded, and then serves its names to a grader in another slot (`remote`).
The program shares this process and can forge any of these records: they say no more than that it
failed.
"""

import marshal
import os
import resource
import sys
from typing import Any, TextIO

from assay_sandbox.slot import files

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
    if plan["part"] == "grader":
        from assay_sandbox.slot import grader

        return grader.run(plan, record_fd, channel_fd)
    if channel_fd is not None and plan["session"]:
        from assay_sandbox.slot import cells

        return cells.run(plan, record_fd, channel_fd)
    os.write(record_fd, b"begun\n")
    return Program(plan, record_fd, channel_fd).run()


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

    def __init__(self, plan: dict[str, Any], record_fd: int, channel_fd: int | None) -> None:
        self.plan = plan
        self.record_fd = record_fd
        #: To the grader that asks for the program's names, where it has cases.
        self.channel_fd = channel_fd
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        sys.argv = ["main.py", *plan["arguments"]]
        self.namespace = module.__dict__

    def run(self) -> int:
        try:
            status = 0 if self.load() else 1
        except SystemExit as error:
            status = exit_status(error)
        if self.channel_fd is None:
            return self.leave_slowly(status)
        if status == 0:
            from assay_sandbox.slot.remote import Remote

            # A case's CPU time is the slot's to watch: this limit is all cases' together.
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
            Remote(self.namespace, self.channel_fd).serve()
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
            if self.channel_fd is None:
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
