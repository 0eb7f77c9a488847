"""Slots, daemons and disks lost under programs: typed failures, and service again."""

import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay_sandbox.execution.answers import read_answer
from assay_sandbox.execution.run import RunningProgram, RunSpec
from assay_sandbox.sandbox import LocalSandbox
from assay_shared.clients import SandboxClient
from assay_shared.errors import SandboxFault
from assay_shared.types import (
    MAX_FILES,
    ExecutionRequest,
    ExecutionResult,
    Limits,
    Status,
    TestRequest,
)
from tests.conftest import SandboxProcess, running_sandbox
from tests.unit.sandbox.conftest import MakeSandbox, open_sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def run(sandbox: LocalSandbox, code: str, **rest: object) -> ExecutionResult:
    return await sandbox.execute(ExecutionRequest.model_validate({"code": code} | rest))


def parent_of(pid: int) -> int:
    """0 for an ended process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def slot_processes() -> list[int]:
    """Return the first processes of slots: children of this process's daemons."""
    parents = {int(p.name): parent_of(int(p.name)) for p in Path("/proc").glob("[0-9]*")}
    own = (pid for pid, parent in parents.items() if parent == os.getpid())
    daemons = {pid for pid in own if b"assay_sandbox.slot" in command_of(pid)}
    return [pid for pid, parent in parents.items() if parent in daemons]


def daemon_of(slots: list[int]) -> int:
    """Return the daemon that started the slots; never 0, which is every process of these tests."""
    found = {parent_of(pid) for pid in slots} - {0}
    assert len(found) == 1, found
    return found.pop()


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("isolation", ["pooled", "fallback"])
async def test_slots_are_ended_for_memory_before_the_server(
    make_sandbox: MakeSandbox, isolation: str
) -> None:
    await make_sandbox(sandbox_slots=2, sandbox_isolation=isolation)
    assert [memory_rank(pid) for pid in slot_processes()] == [1000] * 2
    assert memory_rank(os.getpid()) < 1000


def memory_rank(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


SLOW = "import time\nprint('begun', flush=True)\ntime.sleep(1)"


async def kill_slots_under(num_times: int) -> None:
    """Kill all slots of this process, each time after a program has run for a while."""
    for _ in range(num_times):
        await asyncio.sleep(0.6)
        for pid in slot_processes():
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
async def test_a_program_whose_slot_is_killed_is_run_again(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(sandbox_slots=1)
    result, _ = await asyncio.gather(run(sandbox, SLOW), kill_slots_under(1))
    assert (result.status, result.stdout) == (Status.ACCEPTED, "begun\n")
    assert result.wall_time_s < 2.0


@pytest.mark.slow
async def test_cases_whose_slot_is_killed_are_judged_in_the_second_run(
    make_sandbox: MakeSandbox,
) -> None:
    sandbox = await make_sandbox(sandbox_slots=1)
    code = "import time\ndef f(x):\n    time.sleep(0.4)\n    return x"
    cases = [{"kind": "call", "function": "f", "args": [n], "expected": n} for n in (1, 2, 3)]
    cases[2]["expected"] = 4
    request = TestRequest.model_validate({"code": code, "cases": cases})
    report, _ = await asyncio.gather(sandbox.test(request), kill_slots_under(1))
    accepted, wrong = Status.ACCEPTED, Status.WRONG_ANSWER
    assert [case.status for case in report.cases] == [accepted, accepted, wrong]


@pytest.mark.slow
async def test_cases_that_lose_each_slot_end_them_themselves(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(sandbox_slots=1)
    code = "import time\ndef f(x):\n    time.sleep(4 * x)\n    return x"
    tests = ["assert f(0) == 0", "assert f(1) == 1"]
    cases = [{"kind": "assert", "code": test} for test in tests]
    request = TestRequest.model_validate({"code": code, "cases": cases})
    report, _ = await asyncio.gather(sandbox.test(request), kill_slots_under(8))
    assert report.cases[1].status is Status.RUNTIME_ERROR
    assert report.cases[1].message == "the program ended its slot each time it was run"


@pytest.mark.slow
async def test_a_program_that_loses_each_slot_ends_them_itself(make_sandbox: MakeSandbox) -> None:
    """Nothing else of the service ends meanwhile, so the verdict is the program's."""
    sandbox = await make_sandbox(sandbox_slots=1)
    result, _ = await asyncio.gather(run(sandbox, SLOW), kill_slots_under(2))
    assert result.status is Status.RUNTIME_ERROR
    assert result.message == "the program ended its slot each time it was run"
    started = time.monotonic()
    assert (await run(sandbox, "print(1)")).stdout == "1\n"
    assert time.monotonic() - started < 1.0


#: A slot's report of a program's normal end.
FACTS = {
    "status": 0,
    "cpu_time_s": 0.0,
    "wall_time_s": 0.0,
    "idle_time_s": 0.0,
    "clean_time_s": 0.0,
    "peak_memory_bytes": 0,
    "out_of_memory": False,
    "out_of_memory_around": False,
    "out_of_cpu": False,
    "case_cpu_times_s": [],
}


def start(slot: socket.socket, wall_time_s: float = 60.0) -> RunningProgram:
    plan = RunSpec(header={}, body={}, stdin=b"", wall_time_s=wall_time_s, output_bytes=1000)
    return RunningProgram(slot, plan, lambda run, line: None)


Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Of a slot's socket: the server's, and the slot's own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


async def test_an_answer_is_read_from_a_slot_that_left_with_an_order_unread(ends: Ends) -> None:
    """A slot for a single program ends with it; the program may end before its kill."""
    ours, theirs = ends
    run = start(ours)
    theirs.send(json.dumps(FACTS | {"killed_by_server": False}).encode())
    run.kill()
    theirs.close()
    assert (await run.finish()).exit_code == 0
    assert not run.is_slot_lost


async def test_a_slot_that_left_with_an_order_unread_and_no_answer_is_lost(ends: Ends) -> None:
    ours, theirs = ends
    run = start(ours)
    run.kill()
    theirs.close()
    with pytest.raises(SandboxFault, match="the slot ended under its program"):
        await run.finish()
    assert run.is_slot_lost


@pytest.mark.parametrize(
    "message",
    [
        b"UnicodeDecodeError: 'utf-8' codec can't decode",
        b"{}",
        b"[]",
        b"\xff" * 9,
        b"[" * 4000,
        b'{"status": 0}',
    ],
)
async def test_a_slot_that_answers_nonsense_is_lost(ends: Ends, message: bytes) -> None:
    ours, theirs = ends
    run = start(ours)
    theirs.send(message)
    with pytest.raises(SandboxFault, match="the slot ended under its program"):
        await run.finish()
    assert run.is_slot_lost


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", 0x7F),  # stopped, not ended
        ("status", -1),
        ("status", True),
        ("cpu_time_s", float("nan")),
        ("wall_time_s", float("inf")),
        ("clean_time_s", -1.0),
        ("peak_memory_bytes", "1"),
        ("out_of_memory", 1),
        ("killed_by_server", None),
    ],
)
async def test_an_answer_with_an_impossible_fact_is_none(name: str, value: object) -> None:
    facts = FACTS | {"killed_by_server": False}
    assert read_answer(json.dumps(facts).encode()) is not None
    assert read_answer(json.dumps(facts | {name: value}).encode()) is None


@pytest.mark.parametrize("killed_by_server", [True, False])
async def test_time_is_over_only_for_a_program_that_ran_until_then(
    ends: Ends, killed_by_server: bool
) -> None:
    ours, theirs = ends
    run = start(ours, wall_time_s=0.01)
    await asyncio.sleep(0.1)
    theirs.send(json.dumps(FACTS | {"killed_by_server": killed_by_server}).encode())
    assert (await run.finish()).out_of_time is killed_by_server


@pytest.mark.parametrize("isolation", ["pooled", "fresh", "single_use"])
@pytest.mark.slow
async def test_a_clock_that_rings_as_files_are_picked_up_changes_nothing(
    make_sandbox: MakeSandbox, isolation: str
) -> None:
    sandbox = await make_sandbox(sandbox_slots=1, sandbox_isolation=isolation)
    names = [f"[{number}]" for number in range(MAX_FILES)]  # brackets: all names are looked through
    code = (
        "open('[0]', 'w').write('kept')\n"
        "for number in range(6000): open(f'{number}.txt', 'w')\n"
        "time.sleep(max(0, ends - time.monotonic()))"
    )
    for number in range(10):  # a fast machine takes little time for the files
        begin = f"import time\nends = time.monotonic() + {0.84 + 0.015 * number}\n"
        started = time.monotonic()
        result = await run(sandbox, begin + code, limits=Limits(wall_time_s=1.0), fetch_files=names)
        took_s = time.monotonic() - started
        if result.status is Status.ACCEPTED:  # the machine let it end in time
            assert result.files == {"[0]": b"kept"}
            if took_s > 1.0:
                return
        else:
            assert result.status is Status.TIME_LIMIT
    pytest.fail("files were never picked up beyond the program's time")


@pytest.mark.parametrize("isolation", ["pooled", "fallback"])
@pytest.mark.slow
async def test_slots_come_back_when_their_daemon_is_killed(
    make_sandbox: MakeSandbox, isolation: str
) -> None:
    sandbox = await make_sandbox(sandbox_slots=2, sandbox_isolation=isolation)
    work = asyncio.create_task(run(sandbox, "import time\ntime.sleep(2)", limits=Limits()))
    await asyncio.sleep(0.3)
    slots = slot_processes()
    assert len(slots) == 2
    daemon = daemon_of(slots)
    os.kill(daemon, signal.SIGKILL)
    started = time.monotonic()
    results = await asyncio.gather(*(run(sandbox, f"print({i})") for i in range(6)))
    assert [result.stdout for result in results] == [f"{i}\n" for i in range(6)]
    assert time.monotonic() - started < 3.0
    assert (await work).status is Status.ACCEPTED  # it was run again
    assert not [name for name in groups() if f"-{daemon}-" in name]
    while len(slot_processes()) < 2:
        assert time.monotonic() - started < 3.0
        await asyncio.sleep(0.05)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("this host lets no disk be mounted")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_full_disk_is_a_failure_and_passes(
    make_sandbox: MakeSandbox, small_disk: Path
) -> None:
    """If slots have no folders in memory, they live on the host's disk."""
    sandbox = await make_sandbox(sandbox_isolation="fallback", sandbox_work_folder=small_disk)
    (small_disk / "ballast").write_bytes(bytes(2**21 - 2**17))
    code = "open('a', 'wb').write(bytes(2**20))"
    assert (await run(sandbox, code)).status is Status.RUNTIME_ERROR
    with pytest.raises(SandboxFault):  # its files were promised to it
        await run(sandbox, "print(1)", files={"a": base64.b64encode(bytes(2**20)).decode()})
    assert (await run(sandbox, "print(1)")).stdout == "1\n"
    (small_disk / "ballast").unlink()
    assert (await run(sandbox, code)).status is Status.ACCEPTED
    await sandbox.close()


@pytest.mark.slow
async def test_programs_of_a_host_that_ended_all_slots_are_run_again(
    make_sandbox: MakeSandbox,
) -> None:
    """As the kernel does when memory is short: everything of the slots is killed at once."""
    sandbox = await make_sandbox(sandbox_slots=2)
    work = [asyncio.create_task(run(sandbox, SLOW)) for _ in range(2)]
    for _ in range(2):
        deadline = time.monotonic() + 20
        while len(slots := slot_processes()) < 2:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        daemon = daemon_of(slots)
        await asyncio.sleep(0.3)
        for pid in [*slots, daemon]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert [(await one).status for one in work] == [Status.ACCEPTED] * 2


def groups() -> set[str]:
    """Return the control groups of ended daemons; other tests' may be alive."""
    found = Path("/sys/fs/cgroup").rglob("assay-*")
    return {str(path) for path in found if not Path(f"/proc/{path.name.split('-')[1]}").exists()}


async def test_a_closed_sandbox_leaves_nothing(folder: Path) -> None:
    before = groups()
    sandbox = await open_sandbox(sandbox_work_folder=folder)
    await run(sandbox, "print(1)")
    await sandbox.close()
    assert slot_processes() == []
    assert groups() <= before
    assert os.listdir(folder) == []  # noqa: PTH208  # in a coroutine


@pytest.mark.parametrize("isolation", ["pooled", "fallback"])
@pytest.mark.slow
async def test_what_a_killed_server_left_goes_when_the_next_one_starts(
    folder: Path, isolation: str
) -> None:
    environment = {
        "ASSAY_SANDBOX_WORK_FOLDER": str(folder),
        "ASSAY_SANDBOX_ISOLATION": isolation,
    }
    with running_sandbox(**environment) as living, running_sandbox(**environment) as killed:
        for server in (living, killed):
            await print_one(server)
        own = folders_of(living), folders_of(killed)
        killed.process.kill()
        killed.process.wait()
        other = folder / "assay-slots-of-somebody"
        other.mkdir()
        sandbox = await open_sandbox(sandbox_work_folder=folder)
        await sandbox.close()
        left = os.listdir(folder)  # noqa: PTH208  # in a coroutine
        assert set(left) == {path.name for path in (*own[0], other)}
        assert own[1]
        await print_one(living)


async def print_one(server: SandboxProcess) -> None:
    async with SandboxClient(server.url) as client:
        assert (await client.execute(ExecutionRequest(code="print(1)"))).stdout == "1\n"


def folders_of(server: SandboxProcess) -> set[Path]:
    """Return the folders of its locks."""
    held = Path(f"/proc/{server.process.pid}/fd").iterdir()
    files = (file_of(path) for path in held)
    return {file.parent for file in files if file is not None and file.name == "lock"}


def file_of(descriptor: Path) -> Path | None:
    """Return a descriptor's target; None if a live server has just closed it."""
    try:
        return descriptor.readlink()
    except FileNotFoundError:
        return None
