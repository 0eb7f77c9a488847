"""Real programs in real processes: their rights, and the reports on them."""

import asyncio
import shutil
import time
from pathlib import Path

import pytest
from pydantic import JsonValue

from assay_sandbox.sandbox import LocalSandbox
from assay_shared.errors import ConfigError, InvalidInput, Overloaded
from assay_shared.types import (
    AssertCase,
    CallCase,
    ExecutionRequest,
    ExecutionResult,
    Grading,
    Limits,
    Status,
    StdinCase,
    TestReport,
    TestRequest,
)
from tests.unit.sandbox.conftest import NUM_SLOTS, MakeSandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUICK = Limits(cpu_time_s=1.0, wall_time_s=6.0, memory_bytes=256 * 2**20, output_bytes=100_000)


async def run(sandbox: LocalSandbox, code: str, **fields: object) -> ExecutionResult:
    values = {"code": code, "limits": QUICK} | fields
    return await sandbox.execute(ExecutionRequest.model_validate(values))


def call(function: str, *args: JsonValue, expected: JsonValue) -> CallCase:
    return CallCase(function=function, args=args, expected=expected)


async def judge(sandbox: LocalSandbox, code: str, *cases: object, **fields: object) -> TestReport:
    values = {"code": code, "cases": cases, "limits": QUICK} | fields
    return await sandbox.test(TestRequest.model_validate(values))


# What a program gets


async def test_a_program_reads_and_writes(sandbox: LocalSandbox) -> None:
    result = await run(sandbox, "print(input().upper())", stdin="hé\n")
    assert (result.status, result.stdout, result.stderr) == (Status.ACCEPTED, "HÉ\n", "")
    assert result.exit_code == 0
    assert 0 < result.cpu_time_s < 1
    assert result.peak_memory_bytes is not None
    assert 2**18 < result.peak_memory_bytes < 2**28
    assert result.isolation == sandbox.isolation


async def test_a_program_ends_as_it_would_by_itself(sandbox: LocalSandbox) -> None:
    code = (
        "import atexit, threading, time, sys\n"
        "atexit.register(lambda: print('exit handler'))\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
        "sys.exit(3)\n"
    )
    result = await run(sandbox, code)
    assert result.stdout == "thread\nexit handler\n"
    assert (result.status, result.exit_code) == (Status.RUNTIME_ERROR, 3)


async def test_bash_runs_too(sandbox: LocalSandbox) -> None:
    result = await run(sandbox, 'read x; echo "got $x"; exit 4', language="bash", stdin="a\n")
    assert (result.stdout, result.exit_code) == ("got a\n", 4)


async def test_javascript_runs_too(sandbox: LocalSandbox) -> None:
    if shutil.which("node") is None:
        pytest.skip("this machine has no node")
    code = "console.log([3, 1, 2].sort().join()); process.exit(5)"
    result = await run(sandbox, code, language="javascript", limits=Limits())
    assert (result.stdout, result.exit_code) == ("1,2,3\n", 5), result


async def test_an_unknown_language_is_the_callers_fault(sandbox: LocalSandbox) -> None:
    with pytest.raises(InvalidInput, match=r"language: 'cobol' is not known \(known: python"):
        await run(sandbox, "", language="cobol")


async def test_the_environment_holds_no_secret(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_TOKEN", "secret-word")
    result = await run(sandbox, "import os\nprint(sorted(os.environ))")
    names = set(eval(result.stdout))
    assert names <= {
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "PYTHONHASHSEED",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "LC_CTYPE",
    }


async def test_the_folder_is_the_programs_own_and_gone_afterwards(
    sandbox: LocalSandbox,
) -> None:
    code = "import os\nopen('made', 'w').write('x')\nprint(sorted(os.listdir('.')))"
    for _ in range(3 * NUM_SLOTS):
        result = await run(sandbox, code)
        assert result.stdout == "['made', 'main.py']\n", result.stderr


async def test_running_as_root_programs_are_somebody_else(sandbox: LocalSandbox) -> None:
    if sandbox.host.first_uid is None:
        pytest.skip("only a server that runs as root can give its slots separate users")
    result = await run(sandbox, "import os\nprint(os.getuid())\nopen('/etc/shadow')")
    assert int(result.stdout) >= 1000
    assert "Error" in result.stderr


# What is said of programs that go wrong


@pytest.mark.parametrize(
    ("code", "status", "word"),
    [
        ("def f(:\n", Status.SYNTAX_ERROR, "SyntaxError"),
        ("x = '\0'", Status.SYNTAX_ERROR, ""),
        ("(" * 5000, Status.SYNTAX_ERROR, ""),
        ("1 / 0", Status.RUNTIME_ERROR, "ZeroDivisionError"),
        ("import nothing_of_that_name", Status.RUNTIME_ERROR, "ModuleNotFoundError"),
        ("def f(): return f()\nf()", Status.RUNTIME_ERROR, "RecursionError"),
        ("import os\nos.kill(os.getpid(), 11)", Status.RUNTIME_ERROR, "SIGSEGV"),
        ("import os\nos.kill(os.getpid(), 9)", Status.RUNTIME_ERROR, "SIGKILL"),
        ("import os\nos._exit(7)", Status.RUNTIME_ERROR, "exit code 7"),
        ("while True: pass", Status.TIME_LIMIT, "CPU"),
        ("input()\nimport time\ntime.sleep(60)", Status.RUNTIME_ERROR, "EOFError"),
        ("x = bytearray(2**30)", Status.MEMORY_LIMIT, "memory"),
        ("x = []\nwhile True: x.append(bytearray(2**20))", Status.MEMORY_LIMIT, "memory"),
        ("print('x' * 1_000_000)", Status.OUTPUT_LIMIT, "output"),
        ("import sys\nwhile True: sys.stderr.write('x' * 1000)", Status.OUTPUT_LIMIT, "output"),
        ("open('big', 'wb').write(b'x' * 2**25)", Status.RUNTIME_ERROR, "OSError"),
        ("open('a' * 10000)", Status.RUNTIME_ERROR, "OSError"),
        ("import signal\nsignal.signal(signal.SIGXCPU, lambda *_: None)\nwhile True: pass",
         Status.TIME_LIMIT, "CPU"),
    ],
)  # fmt: skip
@pytest.mark.slow
async def test_verdicts(sandbox: LocalSandbox, code: str, status: Status, word: str) -> None:
    result = await run(sandbox, code)
    assert result.status is status, result
    assert word in result.message


@pytest.mark.slow
async def test_a_program_that_sleeps_is_ended(sandbox: LocalSandbox) -> None:
    limits = QUICK.model_copy(update={"wall_time_s": 1.0})
    result = await run(sandbox, "import time\ntime.sleep(60)", limits=limits)
    assert result.status is Status.TIME_LIMIT
    assert "wall" in result.message


async def test_a_traceback_shows_the_program_and_nothing_of_ours(sandbox: LocalSandbox) -> None:
    result = await run(sandbox, "def f(x):\n    return 1 / x\nf(0)\n")
    assert '/main.py", line 2, in f' in result.stderr
    assert "<string>" not in result.stderr


async def test_much_output_is_not_a_timeout(sandbox: LocalSandbox) -> None:
    """A server without reading during its wait would block the program at 64 KiB."""
    limits = Limits(output_bytes=4 * 2**20)
    result = await run(sandbox, "print('x' * 2_000_000)", limits=limits)
    assert result.status is Status.ACCEPTED
    assert len(result.stdout) == 2_000_001


async def test_input_that_is_never_read_blocks_nothing(sandbox: LocalSandbox) -> None:
    result = await run(sandbox, "print('done')", stdin="x" * 20_000_000)
    assert (result.status, result.stdout) == (Status.ACCEPTED, "done\n")


async def test_output_that_is_no_text_is_marked(sandbox: LocalSandbox) -> None:
    result = await run(sandbox, "import sys\nsys.stdout.buffer.write(b'a\\xff\\0b')")
    assert result.stdout == "a\N{REPLACEMENT CHARACTER}\0b"


# Nothing is left behind


def owned(word: str) -> list[int]:
    """Processes with the argument `word`."""
    found = []
    for pid in (path.name for path in Path("/proc").iterdir() if path.name.isdigit()):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in command.split(b"\0"):
            found.append(int(pid))
    return found


@pytest.mark.parametrize(
    "escape",
    [
        "subprocess.Popen(['sleep', '4711.1'])",
        "subprocess.Popen(['sleep', '4711.1'], start_new_session=True)",
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    os.fork() or os.execlp('sleep', 'sleep', '4711.1')\n"
        "    os._exit(0)",
        "signal.signal(15, signal.SIG_IGN) or subprocess.Popen(['sleep', '4711.1'])",
        "os.closerange(3, 100) or subprocess.Popen(['sleep', '4711.1'], stdout=subprocess.DEVNULL,"
        " stderr=subprocess.DEVNULL, start_new_session=True)",
    ],
)  # fmt: skip
async def test_the_whole_tree_dies_with_the_program(sandbox: LocalSandbox, escape: str) -> None:
    code = f"import os, signal, subprocess, time\n{escape}\ntime.sleep(0.2)\nprint('main ended')"
    result = await run(sandbox, code)
    assert result.stdout == "main ended\n", result
    assert owned("4711.1") == []


async def test_cpu_time_is_that_of_all_processes_and_ends_them(sandbox: LocalSandbox) -> None:
    code = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"
    result = await run(sandbox, code, limits=Limits(cpu_time_s=1.0, wall_time_s=20.0))
    assert result.status is Status.TIME_LIMIT
    assert "of CPU time" in result.message
    assert 1.0 < result.cpu_time_s < 4.0


async def test_a_fork_bomb_ends(sandbox: LocalSandbox) -> None:
    if sandbox.host.first_uid is None:
        pytest.skip("the number of processes is limited per user, which needs a server run as root")
    started = time.monotonic()
    result = await run(sandbox, "import os\nwhile True: os.fork()")
    assert result.status in (Status.TIME_LIMIT, Status.RUNTIME_ERROR)
    assert time.monotonic() - started < 15
    spawns = "import subprocess\nprint(subprocess.run('echo 1; echo 2', shell=True).returncode)"
    for _ in range(3):
        assert (await run(sandbox, spawns)).status is Status.ACCEPTED, "its zombies are gone too"


async def test_cancelling_kills_the_program_and_frees_its_slot(
    make_sandbox: MakeSandbox,
) -> None:
    sandbox = await make_sandbox(sandbox_slots=1)
    code = "import subprocess\nsubprocess.run(['sleep', '4712.2'])"
    work = asyncio.create_task(run(sandbox, code, limits=Limits()))
    while not owned("4712.2"):  # noqa: ASYNC110  # another process sets no event here
        await asyncio.sleep(0.02)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert owned("4712.2") == []
    assert (await run(sandbox, "print(1)")).stdout == "1\n"


def num_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_hundreds_of_programs_leave_no_descriptor(sandbox: LocalSandbox) -> None:
    await asyncio.gather(*(run(sandbox, "print(1)") for _ in range(8)))
    before = num_descriptors()
    results = await asyncio.gather(*(run(sandbox, f"print({i})") for i in range(200)))
    assert [r.stdout for r in results] == [f"{i}\n" for i in range(200)]
    assert num_descriptors() <= before + 2


# Judging


async def test_stdin_cases(sandbox: LocalSandbox) -> None:
    report = await judge(
        sandbox,
        "n = int(input())\nif n == 3: raise ValueError('three')\nprint(n * 2 if n < 5 else 0)",
        StdinCase(stdin="1", expected_stdout="2\n"),
        StdinCase(stdin="3", expected_stdout="6"),
        StdinCase(stdin="7", expected_stdout="14"),
    )
    assert [case.status for case in report.cases] == [
        Status.ACCEPTED,
        Status.RUNTIME_ERROR,
        Status.WRONG_ANSWER,
    ]
    assert report.status is Status.RUNTIME_ERROR
    assert report.grading is Grading.OUTSIDE


async def test_call_cases_are_compared_outside(sandbox: LocalSandbox) -> None:
    code = "def f(x):\n    if x == 2: raise KeyError('f')\n    return (x, [x] * x)\n"
    report = await judge(
        sandbox,
        code,
        call("f", 1, expected=[1, [1]]),
        call("f", 2, expected=[]),
        call("f", 3, expected=[3, [3]]),
        call("g", 1, expected=None),
    )
    statuses = [case.status for case in report.cases]
    assert statuses == [
        Status.ACCEPTED,
        Status.RUNTIME_ERROR,
        Status.WRONG_ANSWER,
        Status.RUNTIME_ERROR,
    ]
    assert report.cases[2].message == "returned (3, [3, 3, 3])"
    assert "no function g" in report.cases[3].message
    assert report.grading is Grading.OUTSIDE


async def test_test_code_is_plain_python(sandbox: LocalSandbox) -> None:
    report = await judge(
        sandbox,
        "def f(x):\n    return x + 1\n",
        AssertCase(code="assert f(1) == 2"),
        AssertCase(code="for x in [1]:\n    assert f(x) == 3, 'not three'"),
        AssertCase(code="f()"),
        AssertCase(code="assert ("),
    )
    assert [case.status for case in report.cases] == [
        Status.ACCEPTED,
        Status.WRONG_ANSWER,
        Status.RUNTIME_ERROR,
        Status.RUNTIME_ERROR,
    ]
    assert "not three" in report.cases[1].message
    assert report.grading is Grading.OUTSIDE


@pytest.mark.slow
async def test_a_case_that_ends_the_process_is_judged_and_the_next_goes_on(
    sandbox: LocalSandbox,
) -> None:
    code = (
        "import os, time\n"
        "def f(x):\n"
        "    if x == 1: os._exit(0)\n"
        "    if x == 2:\n        while True: pass\n"
        "    if x == 3: time.sleep(60)\n"
        "    if x == 4: return bytearray(2**30)\n"
        "    if x == 5: print('x' * 10**6, flush=True)\n"
        "    return x\n"
    )
    limits = QUICK.model_copy(update={"wall_time_s": 3.0})
    cases = [call("f", x, expected=x) for x in range(7)]
    report = await judge(sandbox, code, *cases, limits=limits)
    assert [case.status for case in report.cases] == [
        Status.ACCEPTED,
        Status.RUNTIME_ERROR,
        Status.TIME_LIMIT,
        Status.TIME_LIMIT,
        Status.MEMORY_LIMIT,
        Status.OUTPUT_LIMIT,
        Status.ACCEPTED,
    ]


@pytest.mark.slow
async def test_each_case_has_the_limits_to_itself(sandbox: LocalSandbox) -> None:
    code = (
        "import time\n"
        "def f():\n"
        "    end = time.process_time() + 0.6\n"
        "    while time.process_time() < end: pass\n"
    )
    limits = Limits(cpu_time_s=1.0, wall_time_s=2.5)
    report = await judge(sandbox, code, *[call("f", expected=None)] * 5, limits=limits)
    assert report.status is Status.ACCEPTED


async def test_stop_on_first_failure_leaves_the_rest_unrun(sandbox: LocalSandbox) -> None:
    function = "def f(x):\n    return x\n"
    for code, cases in (
        (function, [call("f", x, expected=0) for x in range(4)]),
        (function, [AssertCase(code=f"assert f({x}) == 0") for x in range(4)]),
        ("print(input())", [StdinCase(stdin=str(x), expected_stdout="0") for x in range(4)]),
    ):
        report = await judge(sandbox, code, *cases, stop_on_first_failure=True)
        assert [case.status for case in report.cases] == [
            Status.ACCEPTED,
            Status.WRONG_ANSWER,
            None,
            None,
        ]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("def f(:", Status.SYNTAX_ERROR),
        ("raise ValueError", Status.RUNTIME_ERROR),
        ("import sys\nsys.exit(0)", Status.RUNTIME_ERROR),
        ("import os\nos._exit(0)", Status.RUNTIME_ERROR),
        ("x = bytearray(2**30)", Status.MEMORY_LIMIT),
        ("while True: pass", Status.TIME_LIMIT),
    ],
)
@pytest.mark.slow
async def test_a_program_that_does_not_load_fails_every_case(
    sandbox: LocalSandbox, code: str, status: Status
) -> None:
    report = await judge(sandbox, code, *[call("f", 1, expected=1)] * 3)
    assert [case.status for case in report.cases] == [status] * 3


async def test_assertions_are_judged_outside(sandbox: LocalSandbox) -> None:
    report = await judge(
        sandbox,
        "def f(x):\n    if x > 8: raise ValueError('too large')\n    return [x, x / 3]\n",
        AssertCase(code="assert f(3) == [3, 1.0]\nassert abs(f(1)[1] - 0.333) < 1e-2"),
        AssertCase(code="assert f(3) == [3, 1.0]\nassert f(4) == [4, 2]"),
        AssertCase(code="assert f(9) == [9, 3]"),
        AssertCase(code="import math\nassert len(f(math.floor(2.5))) == 2 and f(0)[0] is not None"),
        AssertCase(code="assert f(1) < 3"),
    )
    assert report.grading is Grading.OUTSIDE
    assert [case.status for case in report.cases] == [
        Status.ACCEPTED,
        Status.WRONG_ANSWER,
        Status.RUNTIME_ERROR,
        Status.ACCEPTED,
        Status.RUNTIME_ERROR,
    ]
    assert "[4, 1.3333333333333333]" in report.cases[1].message


# Our own faults


@pytest.mark.slow
async def test_a_full_queue_refuses_at_once(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(sandbox_slots=1, sandbox_max_slots=1, sandbox_max_waiting=1)
    code = "import time\ntime.sleep(0.5)"
    results = await asyncio.gather(*(run(sandbox, code) for _ in range(6)), return_exceptions=True)
    refused = [r for r in results if isinstance(r, Overloaded)]
    assert len(refused) == 3  # two run or wait for the slot, one waits at the gate
    assert all(r.retry_after_s for r in refused)
    assert all(r.status is Status.ACCEPTED for r in results if isinstance(r, ExecutionResult))


@pytest.mark.slow
async def test_waiting_does_not_count_against_a_program(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(sandbox_slots=1)
    limits = Limits(cpu_time_s=1.0, wall_time_s=1.0)
    work = (run(sandbox, "import time\ntime.sleep(0.4)", limits=limits) for _ in range(6))
    assert {r.status for r in await asyncio.gather(*work)} == {Status.ACCEPTED}


async def test_no_room_for_slots_stops_the_start(make_sandbox: MakeSandbox, folder: Path) -> None:
    with pytest.raises(ConfigError, match="ASSAY_SANDBOX_WORK_FOLDER: .*missing"):
        await make_sandbox(sandbox_work_folder=folder / "missing")


async def test_an_interpreter_that_does_not_work_stops_the_start(
    make_sandbox: MakeSandbox, folder: Path
) -> None:
    with pytest.raises(ConfigError, match="ASSAY_SANDBOX_PYTHON: no interpreter .* works"):
        await make_sandbox(sandbox_python=folder / "python")


@pytest.mark.slow
async def test_two_sandboxes_on_one_machine_leave_each_other_alone(
    make_sandbox: MakeSandbox,
) -> None:
    """The end of a program must not end another's program in its own slot."""
    first, second = await make_sandbox(sandbox_slots=1), await make_sandbox(sandbox_slots=1)
    if first.host.first_uid is not None:
        assert first.host.first_uid != second.host.first_uid
    slow = asyncio.create_task(run(first, "import time\ntime.sleep(1)\nprint('whole')"))
    for _ in range(10):
        assert (await run(second, "print(1)")).stdout == "1\n"
    assert (await slow).stdout == "whole\n"
