"""CPU, memory and clocks: a program's limits, with control groups and without."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from assay_sandbox.execution.program import Program
from assay_sandbox.execution.run import RunningProgram as SlotRun
from assay_sandbox.languages.languages import LANGUAGES
from assay_sandbox.sandbox import LocalSandbox
from assay_shared.types import (
    CallCase,
    ExecutionRequest,
    ExecutionResult,
    Limits,
    Status,
    TestRequest,
)
from tests.unit.sandbox.conftest import open_sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 2**20
LIMITS = Limits(cpu_time_s=1.0, wall_time_s=20.0, memory_bytes=256 * MIB)
#: A loaded machine may look late; a program that counts twice its limit was not checked.
MOST_S = 1.5
Run = Callable[..., Awaitable[ExecutionResult]]
#: Hides all control groups, and lets another user reach the interpreter below /root.
WITHOUT_GROUPS = """
uid=$1; folder=$2; shift 2
mount -t tmpfs -o mode=755 none /sys/fs/cgroup
mount --bind /root "$folder"
home=/root
mount -t tmpfs -o mode=755 none $home
for name in $(ls -A "$folder"); do
    mkdir -p "$home/$name" && mount --bind "$folder/$name" "$home/$name" 2>/dev/null
done
exec setpriv --reuid $uid --regid $uid --clear-groups "$@"
"""
PLACES = [
    "pooled",
    pytest.param("fallback", marks=pytest.mark.nightly),
    pytest.param("pooled as 10001", marks=pytest.mark.nightly),
    "fallback as 10001",
    "pooled without groups",
]


@pytest_asyncio.fixture(params=PLACES, scope="module", loop_scope="module")
async def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Run]:
    isolation, _, rest = request.param.partition(" ")
    if not rest:
        sandbox = await open_sandbox(sandbox_isolation=isolation)
        if sandbox.isolation != isolation:
            pytest.skip(f"this host does not grant isolation {isolation}")
        yield lambda code, **more: sandbox.execute(ask(code, **more))
        await sandbox.close()
        return
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can hide control groups")
    folder = tmp_path_factory.mktemp("root")
    process = start("10001" if "10001" in rest else "0", isolation, folder)
    url = await asyncio.to_thread(find_url, process)
    yield lambda code, **more: asyncio.to_thread(post, url, ask(code, **more))
    process.terminate()
    process.wait(timeout=30)
    assert process.stderr is not None
    process.stderr.close()


def ask(code: str, **more: object) -> ExecutionRequest:
    return ExecutionRequest.model_validate({"code": code, "limits": LIMITS} | more)


def start(uid: str, isolation: str, folder: Path) -> "subprocess.Popen[str]":
    serve = [sys.executable, "-m", "assay_shared.cli", "sandbox", "serve", "--port", "0"]
    return subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", WITHOUT_GROUPS, "sh", uid, folder, *serve],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ
        | {
            "HOME": "/tmp",
            "ASSAY_SANDBOX_ISOLATION": isolation,
            "ASSAY_SANDBOX_MINIMUM_ISOLATION": isolation,
            "ASSAY_SANDBOX_SLOTS": "2",
        },
    )


def find_url(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    for line in process.stderr:
        message = str(json.loads(line).get("message")) if line.startswith("{") else line
        if "listening on" in message:
            return message.split()[-1]
        if process.poll() is not None:
            break
    pytest.skip("the host does not grant this isolation")


def post(url: str, request: ExecutionRequest) -> ExecutionResult:
    body = request.model_dump_json().encode()
    headers = {"content-type": "application/json"}
    call = urllib.request.Request(f"{url}/v1/execute", body, headers)
    with urllib.request.urlopen(call, timeout=60) as answer:
        return ExecutionResult.model_validate_json(answer.read())


BURN = (
    "def burn(seconds):\n"
    "    end = time.process_time() + seconds\n"
    "    while time.process_time() < end: pass\n"
)
#: Each would use many times the CPU limit.
BURNERS = {
    "ignores SIGXCPU": "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
    "catches SIGXCPU": "signal.signal(signal.SIGXCPU, lambda *a: None)\nwhile True: pass",
    "threads": (
        "import threading\n"
        "for _ in range(4): threading.Thread(target=burn, args=(30,)).start()\n"
    ),
    "processes": "for _ in range(3): os.fork()\nwhile True: pass",
    "children nobody waits for": (
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "end = time.monotonic() + 9\n"
        "while time.monotonic() < end:\n"
        "    pid = os.fork()\n"
        "    if pid == 0: burn(0.15); os._exit(0)\n"
        "    try: os.waitpid(pid, 0)\n"
        "    except ChildProcessError: pass\n"
    ),
    "children in a row": (
        "for _ in range(60):\n"
        "    pid = os.fork()\n"
        "    if pid == 0: burn(0.05); os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
    ),
    "a daemon": (
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: burn(30)\n"
        "    os._exit(0)\n"
        "os.wait(); time.sleep(15)"
    ),
    "a nice child": (
        "pid = os.fork()\n"
        "if pid == 0: os.nice(19); burn(30)\n"
        "time.sleep(15)"
    ),
    "a child that outlives its parent": (
        "if os.fork() == 0:\n"
        "    if os.fork() == 0: burn(30)\n"
        "    burn(0.1); os._exit(0)\n"
        "time.sleep(15)"
    ),
    "a child that is stopped and continues": (
        "pid = os.fork()\n"
        "if pid == 0: burn(30)\n"
        "for _ in range(100):\n"
        "    time.sleep(0.1); os.kill(pid, signal.SIGSTOP)\n"
        "    time.sleep(0.01); os.kill(pid, signal.SIGCONT)\n"
    ),
    "a name that is not text": (
        "import ctypes\nctypes.CDLL(None).prctl(15, b'\\xff) 1 (\\n', 0, 0, 0)\nwhile True: pass"
    ),
    "another program": (
        "os.execvp('sh', ['sh', '-c', '(while :; do :; done) & while :; do :; done'])"
    ),
    "a shell's children": (
        "os.execvp('sh', ['sh', '-c', 'trap \"\" CHLD XCPU; '"
        " 'nohup sh -c \"while :; do :; done\" & wait'])"
    ),
}  # fmt: skip
PRELUDE = f"import os, signal, time\n{BURN}"


@pytest.mark.parametrize("burner", BURNERS.values(), ids=BURNERS)
@pytest.mark.slow
async def test_cpu_time_is_that_of_all_that_a_program_starts(run: Run, burner: str) -> None:
    result = await run(PRELUDE + burner)
    assert result.status is Status.TIME_LIMIT, result
    assert "of CPU time" in result.message
    assert 1.0 < result.cpu_time_s < MOST_S


@pytest.mark.parametrize("seconds", [0.8, 0.94])
@pytest.mark.slow
async def test_a_program_within_its_cpu_time_is_not_killed(run: Run, seconds: float) -> None:
    result = await run(f"{PRELUDE}burn({seconds} - time.process_time())\nprint('done')")
    assert result.status is Status.ACCEPTED, result
    assert result.stdout == "done\n"
    assert seconds <= result.cpu_time_s < 1.0


@pytest.mark.slow
async def test_a_program_over_its_cpu_time_is_killed(run: Run) -> None:
    result = await run(f"{PRELUDE}burn(1.1)\nprint('done')")
    assert result.status is Status.TIME_LIMIT, result
    assert result.stdout == ""


async def test_a_program_of_many_processes_within_its_cpu_time_is_not_killed(run: Run) -> None:
    code = (
        "for _ in range(20):\n"
        "    pid = os.fork()\n"
        "    if pid == 0: burn(0.03); os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
        "print('done')"
    )
    result = await run(PRELUDE + code)
    assert result.status is Status.ACCEPTED, result
    assert 0.6 <= result.cpu_time_s < 1.0


@pytest.mark.parametrize(
    "name", [b"\xff\xfe", b"a) R 1 (b", b"\n\n 1 2 3", b") Z 0 0", "программа".encode()[:15]]
)
async def test_a_process_may_have_any_name(run: Run, name: bytes) -> None:
    code = (
        f"import ctypes\nctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0)\nburn(0.2)\nprint('done')"
    )
    result = await run(PRELUDE + code)
    assert result.status is Status.ACCEPTED, result
    assert 0.2 <= result.cpu_time_s < 0.5


HOLD = "time.sleep(1)\nprint('held')"
#: Each would hold 900 MiB.
HOARDS = {
    "shared memory": (
        "import mmap\nm = mmap.mmap(-1, 900 << 20)\n"
        "for i in range(0, 900 << 20, 4096): m[i] = 1\n"
    ),
    "shared memory that is in no page table": (
        "import mmap\nkept = [mmap.mmap(-1, 16 << 20) for _ in range(56)]\n"
        "for m in kept:\n"
        "    for i in range(0, 16 << 20, 4096): m[i] = 1\n"
        "    m.madvise(mmap.MADV_DONTNEED)\n"
    ),
    "shared memory of children": (
        "import mmap\nready, done = os.pipe()\nfor _ in range(9):\n"
        "    m = mmap.mmap(-1, 100 << 20)\n"
        "    if os.fork() == 0:\n"
        "        for i in range(0, 100 << 20, 4096): m[i] = 1\n"
        "        os.write(done, b'1'); time.sleep(9); os._exit(0)\n"
        "    m.close()\n"
        "for _ in range(9): os.read(ready, 1)\n"
    ),
    "processes": (
        "ready, done = os.pipe()\nfor _ in range(9):\n"
        "    if os.fork() == 0:\n"
        "        kept = bytearray(100 << 20)\n"
        "        for i in range(0, 100 << 20, 4096): kept[i] = 1\n"
        "        os.write(done, b'1'); time.sleep(9); os._exit(0)\n"
        "for _ in range(9): os.read(ready, 1)\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("hoard", HOARDS.values(), ids=HOARDS)
async def test_memory_is_that_of_all_that_a_program_starts(run: Run, hoard: str) -> None:
    result = await run(PRELUDE + hoard + HOLD, limits=LIMITS.model_copy(update={"cpu_time_s": 9.0}))
    assert result.status is Status.MEMORY_LIMIT, result
    assert result.stdout == ""


async def test_files_in_memory_are_bounded(run: Run) -> None:
    code = (
        "kept = []\nfor _ in range(60):\n    kept.append(os.memfd_create('a'))\n"
        "    os.write(kept[-1], b'x' * (16 << 20))\n"
    )
    result = await run(PRELUDE + code + HOLD)
    assert result.status in (Status.MEMORY_LIMIT, Status.RUNTIME_ERROR), result
    assert result.stdout == ""


async def test_memory_that_processes_share_counts_once(run: Run) -> None:
    code = (
        "kept = bytearray(120 << 20)\nfor i in range(0, 120 << 20, 4096): kept[i] = 1\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0: time.sleep(0.7); os._exit(0)\n"
        "for _ in range(6): os.wait()\n"
        "print('done')"
    )
    result = await run(PRELUDE + code)
    assert result.status is Status.ACCEPTED, result


async def test_a_program_that_catches_its_memory_error_goes_on(run: Run) -> None:
    code = "try: kept = bytearray(2**50)\nexcept MemoryError: print('caught')"
    result = await run(code)
    assert (result.status, result.stdout) == (Status.ACCEPTED, "caught\n")


async def test_what_one_program_held_is_not_the_next_ones(run: Run) -> None:
    for _ in range(2):
        await run(
            "kept = b'x' * (150 << 20)\nopen('/tmp/a' if 0 else 'a', 'wb').write(kept[:8 << 20])"
        )
    for _ in range(3):
        result = await run("print(1)")
        assert result.status is Status.ACCEPTED
        assert result.peak_memory_bytes is not None
        assert result.peak_memory_bytes < 60 * MIB


CASE = CallCase(kind="call", function="f", args=(), expected=1)


def judge(code: str, num_cases: int, limits: Limits = LIMITS) -> TestRequest:
    return TestRequest(code=PRELUDE + code, cases=(CASE,) * num_cases, limits=limits)


@pytest.mark.slow
async def test_each_case_has_the_cpu_limit_and_no_more(sandbox: LocalSandbox) -> None:
    code = (
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nn = 0\n"
        "def f():\n    global n\n    n += 1\n    burn(4.0 if n == 2 else 0.6)\n    return 1\n"
    )
    # Two cases may end at a limit: a third of 30 s is a case's share.
    limits = LIMITS.model_copy(update={"wall_time_s": 10.0})
    report = await sandbox.test(judge(code, 4, limits))
    wanted = [Status.ACCEPTED, Status.TIME_LIMIT, Status.ACCEPTED, Status.TIME_LIMIT]
    assert [case.status for case in report.cases] == wanted, report
    assert all(case.cpu_time_s < MOST_S for case in report.cases), report


@pytest.mark.slow
async def test_a_case_within_its_cpu_time_is_not_killed(sandbox: LocalSandbox) -> None:
    report = await sandbox.test(judge("def f():\n    burn(0.94)\n    return 1\n", 3))
    assert [case.status for case in report.cases] == [Status.ACCEPTED] * 3, report


@pytest.mark.slow
async def test_a_slot_says_when_its_program_is_idle_and_when_not(folder: Path) -> None:
    sandbox = await open_sandbox(sandbox_isolation="pooled", sandbox_work_folder=folder)
    said: list[bool] = []
    code = f"{PRELUDE}time.sleep(0.5)\nburn(0.5)\ntime.sleep(0.5)\nprint('done')"
    plan = Program(LANGUAGES["python"], LIMITS, text=code).plan()
    slot = await sandbox._slots.hold("std", 0)
    slot_run = SlotRun(slot.socket, plan, lambda _run, _line: None, on_rest=said.append)
    assert (await slot_run.finish()).stdout == b"done\n"
    slot.socket.close()
    await sandbox._slots.let_go("std", 0)
    await sandbox.close()
    # A loaded machine may give a burning program too little to show: it is idle for a moment.
    assert len(said) >= 3
    assert said == [index % 2 == 0 for index in range(len(said))]
