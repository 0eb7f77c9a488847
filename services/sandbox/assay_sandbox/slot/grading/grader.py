"""The grader: it judges call and assertion cases, in a separate slot from the program's.

The interpreter runs test code here, unchanged. For the program's names in it the grader asks the
program's process (`program_side`); the program's code never gets here. Records, a line each:

    begun
    start <case>                the case has begun: its time counts from here
    inside <case>               the case runs in the program's process
    passed <case>
    failed <case> <text>        the assertion does not hold, or another value was returned
    raised <case> <type>: <text>
    memory <case>               the program ran out of memory
    cannot <case> <text>        the case cannot be graded
    needs <case> <text>         with this test code, only the program's process can grade the case
    lost <case>                 the program's process ended during the case
    done
"""

import builtins
import os
import resource
import time
from typing import Any

from assay_sandbox.slot.grading import output, values
from assay_sandbox.slot.grading.handles import same_object, type_of
from assay_sandbox.slot.grading.program_side import OutOfMemory, ProgramLost, ProgramSide
from assay_sandbox.slot.grading.testcode import FRESH, SAME, TYPE_OF, OnlyInside, Prepared
from assay_sandbox.slot.messages.wire import CannotGrade

_MAX_TEXT = 400


class Names(dict[str, Any]):
    """Globals of test code: its own names, then the program's, then Python's."""

    def __init__(self, program: ProgramSide) -> None:
        own = {"__name__": "__main__", "__builtins__": builtins}
        super().__init__(own | {SAME: same_object, TYPE_OF: type_of, FRESH: program.note_fresh})
        self._program = program

    def __missing__(self, name: str) -> Any:
        if self._program.has(name):
            return self._program.get(name)
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a name as plain Python would: program and test share a namespace."""
        is_shared = self._program.has(name)
        if is_shared:
            self._program.set(name, value)
        if is_shared and not self._program.is_library(value):
            self.pop(name, None)
        else:
            super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        if self._program.has(name):
            self._program.delete(name)
            self.pop(name, None)
        else:
            super().__delitem__(name)


class Grader:
    """Judge of a request's cases, in turn."""

    def __init__(self, plan: dict[str, Any], record_fd: int, channel_fd: int) -> None:
        self._plan = plan
        self._record_fd = record_fd
        self._program = ProgramSide(channel_fd)
        self._names = Names(self._program)

    def run(self) -> int:
        self.record("begun")
        try:
            self._program.await_ready()
        except ProgramLost:
            return 0
        except CannotGrade as error:
            self.record("start 0")
            self.record(f"cannot 0 {error}")
            return 0
        for index, case in enumerate(self._plan["cases"]):
            self._limit_cpu()
            self._program.begin_case()
            self.record(f"start {index}")
            if not self._judge(index, case):
                return 0
        self.record("done")
        return 0

    def record(self, text: str) -> None:
        line = " ".join(text.split("\n"))[:_MAX_TEXT] + "\n"
        os.write(self._record_fd, line.encode("utf-8", "backslashreplace"))

    def _limit_cpu(self) -> None:
        """Raise the CPU limit by the CPU time of a case, for the next case."""
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        until = -int(-(time.process_time() + self._plan["limits"]["cpu_time_s"]) // 1)
        if hard != resource.RLIM_INFINITY:
            until = min(until, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (until, hard))

    def _judge(self, index: int, case: dict[str, Any]) -> bool:
        """Record a case's verdict; return False if later cases cannot use the program's process."""
        verdict, text = self._verdict_of(index, case)
        program = self._program
        if program.is_lost:
            verdict, text = "lost", ""
        elif program.refusal and verdict != "memory":
            verdict = "needs" if program.needs_inside else "cannot"
            text = program.refusal
        self.record(f"{verdict} {index} {text}")
        return verdict not in ("lost", "cannot", "needs", "memory")

    def _verdict_of(self, index: int, case: dict[str, Any]) -> tuple[str, str]:
        try:
            if "function" in case:
                return self._call(case)
            return self._assert(index, case)
        except OutOfMemory:
            return "memory", ""
        except (MemoryError, CannotGrade) as error:
            return "cannot", str(error) or "comparing the values takes too much memory"
        except ProgramLost:
            return "lost", ""
        except AssertionError as error:
            shown = values.show(self._program.last_value)
            return "failed", f"{_describe(error)}, after {shown} was returned"
        except BaseException as error:
            return "raised", _describe(error)

    def _call(self, case: dict[str, Any]) -> tuple[str, str]:
        name = case["function"]
        if name not in self._program.names:
            return "raised", f"NameError: no function {name}"
        value = self._program.get(name)(*case["args"])
        if values.same(value, case["expected"]):
            return "passed", ""
        return "failed", "returned " + values.show(value)

    def _assert(self, index: int, case: dict[str, Any]) -> tuple[str, str]:
        if case["inside"]:
            return self._run_inside(index, case)
        prepared = Prepared()
        try:
            code: Any = prepared.prepare(case["code"])
        except (OnlyInside, RecursionError, MemoryError) as error:
            if case["hackable"]:
                return self._run_inside(index, case)
            return "cannot", str(error) or "the test code nests too deeply"
        if shared := sorted(filter(self._program.has, prepared.global_names)):
            return "cannot", f"a function of the test sets {', '.join(shared)} of the program"
        try:
            exec(code, self._names)
        except Exception as error:
            self._refuse_shared_name(error)
            raise
        if not self._program.was_asked:
            if case["hackable"]:
                return self._run_inside(index, case)
            return "cannot", "it asserts nothing about the program"
        return "passed", ""

    def _refuse_shared_name(self, error: Exception) -> None:
        """Refuse to grade on a NameError about a test code name: the program may use this name."""
        if isinstance(error, NameError) and error.args:
            text = str(error.args[0])
            if any(f"'{name}'" in text for name in self._names):
                raise CannotGrade("the program uses a name of the test code")

    def _run_inside(self, index: int, case: dict[str, Any]) -> tuple[str, str]:
        self.record(f"inside {index}")
        self._program.ask("exec", case["code"])
        return "passed", ""


def _describe(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())[:_MAX_TEXT]
    except BaseException:
        text = ""
    return f"{type(error).__name__}: {text}"


def compare(plan: dict[str, Any], record_fd: int) -> int:
    """Compare a program's output, too large for the server, and record the verdict; return 0."""
    os.write(record_fd, b"begun\n")
    got = plan["got"].decode(errors="surrogateescape")
    same = output.same_output(got, plan["expected"], plan["compare"], plan["tolerance"])
    os.write(record_fd, b"passed 0\n" if same else b"failed 0\n")
    return 0


def run(plan: dict[str, Any], record_fd: int, channel_fd: int | None) -> int:
    """Run a grader; return its exit status."""
    if channel_fd is None:
        return compare(plan, record_fd)
    return Grader(plan, record_fd, channel_fd).run()
