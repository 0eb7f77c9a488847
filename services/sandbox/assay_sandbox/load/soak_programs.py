"""Programs with known verdicts, for the soak and as innocent programs between hostile ones."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from assay_sandbox.load.load import WORKLOADS, Format, LoadProgram, Workload
from assay_shared.types import Status

_SHORT_S = 0.3
_NUM_ORDERS = 16


@dataclass(frozen=True)
class Known:
    """A request with a known answer, and its number of times in a cycle of the mix."""

    name: str
    times: int
    workload: Workload


def _program(
    name: str, times: int, status: Status, code: str, stdout: str | None = "", **limits: float
) -> Known:
    def is_right(answer: dict[str, Any]) -> bool:
        return answer["status"] == status and stdout in (None, answer["stdout"])

    body = {"code": code, "limits": limits}
    return Known(name, times, Workload("/v1/execute", body, is_right))


def _cases(name: str, code: str, *cases: tuple[Status, dict[str, object]]) -> Known:
    expected = [status for status, _ in cases]

    def is_right(answer: dict[str, Any]) -> bool:
        return [case["status"] for case in answer["cases"]] == expected

    body = {"code": code, "cases": [case for _, case in cases]}
    return Known(name, 4, Workload("/v1/test", body, is_right))


def _stdin(given: str, expected: str) -> dict[str, object]:
    return {"kind": "stdin", "stdin": given, "expected_stdout": expected}


def _call(argument: object, expected: object) -> dict[str, object]:
    return {"kind": "call", "function": "double", "args": [argument], "expected": expected}


def _assert(code: str) -> dict[str, object]:
    return {"kind": "assert", "code": code}


_DOUBLE = "def double(x):\n    return x * 2"
_DAEMON = """\
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(99)
    os._exit(0)
print('done')"""
_FORK_BOMB = """\
import os
while True:
    try: os.fork()
    except OSError: pass"""
#: Prints files left by the program before it, and leaves some too.
_FILES = """\
import os
folders = {os.getcwd(), os.environ['TMPDIR']}
print([name for folder in folders for name in os.listdir(folder) if name != 'main.py'])
for folder in folders:
    os.makedirs(folder + '/deep/er')
    for number in range(20):
        open(f'{folder}/deep/er/{number}', 'w').write('x' * 4096)"""

KNOWN = (
    Known("accepted", 60, WORKLOADS[Format.ASSAY, LoadProgram.PRINT]),
    Known("accepted, 20 tests", 2, WORKLOADS[Format.ASSAY, LoadProgram.JUDGE]),
    _cases(
        "wrong_answer",
        "print(int(input()) ** 2)",
        (Status.ACCEPTED, _stdin("2", "4")),
        (Status.WRONG_ANSWER, _stdin("3", "6")),
    ),
    _cases(
        "call cases",
        _DOUBLE,
        (Status.ACCEPTED, _call(2, 4)),
        (Status.WRONG_ANSWER, _call("a", "a")),
        (Status.RUNTIME_ERROR, _call(None, 0)),
    ),
    _cases(
        "assert cases",
        _DOUBLE,
        (Status.ACCEPTED, _assert("assert double(2) == 4\nassert double('a') == 'aa'")),
        (Status.WRONG_ANSWER, _assert("assert double([1]) == [2]")),
        (Status.ACCEPTED, _assert("for n in range(9):\n    assert double(n) == n + n")),
    ),
    _program("runtime_error", 8, Status.RUNTIME_ERROR, "print(1, flush=True)\n1 / 0", "1\n"),
    _program("syntax_error", 8, Status.SYNTAX_ERROR, "print(1"),
    _program("time_limit, loop", 1, Status.TIME_LIMIT, "while True: pass", cpu_time_s=1),
    _program(
        "time_limit, sleep",
        2,
        Status.TIME_LIMIT,
        "import time\ntime.sleep(99)",
        wall_time_s=_SHORT_S,
    ),
    _program(
        "memory_limit",
        4,
        Status.MEMORY_LIMIT,
        "kept = []\nwhile True: kept.append(bytearray(2**20))",
        memory_bytes=64 * 2**20,
    ),
    _program(
        "output_limit",
        4,
        Status.OUTPUT_LIMIT,
        "while True: print('x' * 1000)",
        None,
        output_bytes=100_000,
    ),
    _program("daemon", 4, Status.ACCEPTED, _DAEMON, "done\n"),
    _program("fork bomb", 1, Status.TIME_LIMIT, _FORK_BOMB, processes=16, wall_time_s=_SHORT_S),
    _program("files left", 8, Status.ACCEPTED, _FILES, "[]\n"),
    _program(
        "non-UTF-8 output",
        8,
        Status.ACCEPTED,
        "import sys\nsys.stdout.buffer.write(bytes([255, 254, 10]))",
        "\ufffd\ufffd\n",
    ),
)


def endless() -> Iterator[Known]:
    """Yield the programs of the mix, cycle by cycle in varying order; the same in every soak."""
    shuffler = random.Random(0)
    cycle = [known for known in KNOWN for _ in range(known.times)]
    orders = [shuffler.sample(cycle, len(cycle)) for _ in range(_NUM_ORDERS)]
    while True:
        for order in orders:
            yield from order


#: Prints the state a program before it may have changed: files, attributes, limits, mask, priority.
_STATE = """\
import os, resource
kept = bytearray(100 << 20)
for folder in (os.getcwd(), os.environ['TMPDIR']):
    open(folder + '/own', 'w').write('x')
    left = set(os.listdir(folder)) - {'own', 'main.py'}
    print(sorted(left), os.listxattr(folder))
print(os.nice(0), resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 20, os.umask(0) != 0o777)
print(len(os.sched_getaffinity(0)) == os.cpu_count(), os.sched_getscheduler(0))"""

#: Programs with verdicts that no program before them may change.
INNOCENT = (
    _program(
        "state",
        1,
        Status.ACCEPTED,
        _STATE,
        f"[] []\n[] []\n{os.nice(0)} True True\nTrue 0\n",  # a service has its starter's priority
    ),
    *(
        known
        for known in KNOWN
        if known.name.startswith(("accepted", "wrong", "call", "assert", "runtime", "files left"))
    ),
)
