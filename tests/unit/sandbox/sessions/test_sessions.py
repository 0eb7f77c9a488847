"""Interpreters with lasting names from cell to cell."""

import asyncio
import socket
from contextlib import suppress

import pytest

from assay_sandbox.sandbox import LocalSandbox
from assay_shared.errors import Conflict, InvalidInput, NotFound, Saturated
from assay_shared.types import CellResult, Limits, SessionRequest, Status
from tests.unit.sandbox.conftest import MakeSandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

ME = "me"
#: The wall's signal and the CPU's come in one moment.
BOTH_CLOCKS = """\
import os, signal
both = {signal.SIGALRM, signal.SIGXCPU}
signal.pthread_sigmask(signal.SIG_BLOCK, both)
for number in both:
    os.kill(os.getpid(), number)
signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
"""
QUICK = SessionRequest(
    limits=Limits(cpu_time_s=1.0, wall_time_s=2.0, memory_bytes=256 * 2**20, output_bytes=100_000)
)


async def start(sandbox: LocalSandbox, request: SessionRequest = QUICK) -> str:
    return (await sandbox.sessions.create(request, ME)).id


async def cells(sandbox: LocalSandbox, session: str, *codes: str) -> list[CellResult]:
    return [await sandbox.sessions.execute(session, ME, code) for code in codes]


async def test_names_live_from_cell_to_cell(sandbox: LocalSandbox) -> None:
    session = await start(sandbox)
    results = await cells(
        sandbox,
        session,
        "x = 20",
        "def double(n):\n    return 2 * n",
        "print('hi')\ndouble(x) + 2",
        "import os\nos.getcwd() == os.environ['HOME']",
    )
    assert [result.status for result in results] == [Status.ACCEPTED] * 4
    assert [result.result for result in results] == [None, None, "42", "True"]
    assert [result.stdout for result in results] == ["", "", "hi\n", ""]
    await sandbox.sessions.end(session, ME)
    with pytest.raises(NotFound):
        await cells(sandbox, session, "1")


@pytest.mark.parametrize(
    ("code", "status", "word"),
    [
        ("1 / 0", Status.RUNTIME_ERROR, "ZeroDivisionError"),
        ("def f(:", Status.SYNTAX_ERROR, "SyntaxError"),
        ("compile('(', 'x', 'exec')", Status.RUNTIME_ERROR, "SyntaxError"),
        ("import sys\nsys.exit(3)", Status.RUNTIME_ERROR, "SystemExit"),
        ("import sys\nsys.exit()", Status.ACCEPTED, ""),
        ("while True: pass", Status.TIME_LIMIT, "time"),
        ("import time\ntime.sleep(60)", Status.TIME_LIMIT, "time"),
        ("try:\n    while True: pass\nexcept Exception: pass", Status.TIME_LIMIT, "time"),
        (BOTH_CLOCKS, Status.TIME_LIMIT, "time"),
        ("y = bytearray(2**30)", Status.MEMORY_LIMIT, "memory"),
        ("z = []\nwhile True: z.append(bytearray(2**20))", Status.MEMORY_LIMIT, "memory"),
        ("print('x' * 200_000)", Status.OUTPUT_LIMIT, "kept"),
        ("def r(): return r()\nr()", Status.RUNTIME_ERROR, "RecursionError"),
        ("raise ValueError('\\ud800')", Status.RUNTIME_ERROR, "ValueError"),
    ],
)
@pytest.mark.slow
async def test_a_cell_that_goes_wrong_leaves_the_session(
    sandbox: LocalSandbox, code: str, status: Status, word: str
) -> None:
    session = await start(sandbox)
    _, failed, after = await cells(sandbox, session, "x = 1", code, "x + 1")
    assert (failed.status, failed.ended) == (status, False), failed
    assert word in failed.message
    assert (after.status, after.result) == (Status.ACCEPTED, "2")
    await sandbox.sessions.end(session, ME)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import os\nos._exit(0)", Status.RUNTIME_ERROR),
        ("import os\nos.kill(os.getpid(), 9)", Status.RUNTIME_ERROR),
        ("import signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\n"
         "signal.signal(signal.SIGXCPU, lambda *_: None)\nwhile True: pass", Status.TIME_LIMIT),
        ("import os\nfor fd in range(3, 50):\n    try: os.close(fd)\n    except OSError: pass",
         Status.RUNTIME_ERROR),
        ("import os\nfor fd in range(3, 50):\n    try: os.write(fd, b'\\xff' * 99)\n"
         "    except OSError: pass", Status.RUNTIME_ERROR),
    ],
)  # fmt: skip
@pytest.mark.slow
async def test_a_cell_that_takes_its_session_along_says_so(
    sandbox: LocalSandbox, code: str, status: Status
) -> None:
    session = await start(sandbox)
    (result,) = await cells(sandbox, session, code)
    assert (result.status, result.ended) == (status, True), result
    with pytest.raises(NotFound):
        await cells(sandbox, session, "1")


async def test_files_go_in_and_out(sandbox: LocalSandbox) -> None:
    request = QUICK.model_copy(update={"files": {"given.txt": b"given"}})
    session = await start(sandbox, request)
    sessions = sandbox.sessions
    await sessions.put_file(session, ME, "data/in.bin", b"\0\1\xff")
    (result,) = await cells(
        sandbox,
        session,
        "import os\n"
        "open('out.bin', 'wb').write(open('data/in.bin', 'rb').read() * 2)\n"
        "os.symlink('/etc/passwd', 'link')\n"
        "open('given.txt').read()",
    )
    assert result.result == "'given'"
    assert await sessions.get_file(session, ME, "out.bin") == b"\0\1\xff" * 2
    with pytest.raises(NotFound, match="link"):
        await sessions.get_file(session, ME, "link")
    with pytest.raises(NotFound, match="no such file"):
        await sessions.get_file(session, ME, "none")
    with pytest.raises(InvalidInput):
        await sessions.put_file(session, ME, "out.bin/x", b"")
    await sessions.end(session, ME)


async def test_sessions_do_not_see_each_other(sandbox: LocalSandbox) -> None:
    one, other = await start(sandbox), await start(sandbox)
    await cells(sandbox, one, "secret = 1\nopen('secret', 'w').write('x')")
    results = await cells(sandbox, other, "secret", "import os\nos.listdir('.')")
    assert results[0].status is Status.RUNTIME_ERROR
    assert results[1].result == "[]"
    with pytest.raises(NotFound):
        await sandbox.sessions.execute(one, "somebody else", "1")
    for session in (one, other):
        await sandbox.sessions.end(session, ME)


async def test_one_cell_at_a_time(sandbox: LocalSandbox) -> None:
    session = await start(sandbox)
    slow = asyncio.create_task(cells(sandbox, session, "import time\ntime.sleep(0.5)"))
    await asyncio.sleep(0.1)
    with pytest.raises(Conflict):
        await cells(sandbox, session, "1")
    await slow
    await sandbox.sessions.end(session, ME)


async def test_a_session_can_use_numpy(sandbox: LocalSandbox) -> None:
    session = await start(sandbox, SessionRequest(profile="scientific"))
    (result,) = await cells(sandbox, session, "import numpy as np\nint(np.arange(5).sum())")
    assert result.result == "10"
    await sandbox.sessions.end(session, ME)


@pytest.mark.slow
async def test_sessions_are_counted_and_end_by_themselves(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(
        sandbox_max_sessions=3, sandbox_max_sessions_per_client=2, sandbox_session_idle_s=1.0
    )
    sessions = sandbox.sessions
    first = await start(sandbox)
    await start(sandbox)
    with pytest.raises(Saturated, match="2 of them yours"):
        await start(sandbox)
    await sessions.create(QUICK, "another")
    with pytest.raises(Saturated):
        await sessions.create(QUICK, "a third")
    await asyncio.sleep(3.0)
    assert len(sessions) == 0
    with pytest.raises(NotFound):
        await cells(sandbox, first, "1")
    for _ in range(5):  # slots of ended sessions are used again
        session = await start(sandbox)
        assert (await cells(sandbox, session, "1 + 1"))[0].result == "2"
        await sessions.end(session, ME)


#: What a cell can do against its own CPU clock.
DEAF = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
BURN = "import time\nwhile time.process_time() < {0}: pass"
CHILD_BURNS = DEAF + "import os\nif os.fork() == 0:\n    while True: pass\nos.wait()"


@pytest.mark.parametrize("code", [DEAF + "while True: pass", CHILD_BURNS])
@pytest.mark.slow
async def test_a_cell_that_ignores_its_cpu_clock_ends_its_session(
    sandbox: LocalSandbox, code: str
) -> None:
    limits = QUICK.limits.model_copy(update={"cpu_time_s": 0.5, "wall_time_s": 60.0})
    session = await start(sandbox, QUICK.model_copy(update={"limits": limits}))
    (result,) = await cells(sandbox, session, code)
    assert (result.status, result.ended) == (Status.TIME_LIMIT, True), result
    assert "0.5 s of CPU time" in result.message


async def test_a_child_that_comes_to_the_end_of_its_cell_ends(sandbox: LocalSandbox) -> None:
    session = await start(sandbox)
    forked, failed, after = await cells(
        sandbox,
        session,
        "import os\npid = os.fork()\nos.waitpid(pid, 0)[1] if pid else None",
        "if (pid := os.fork()) == 0: raise ValueError\nos.waitpid(pid, 0)[1] >> 8",
        "'one'",
    )
    assert [one.result for one in (forked, failed, after)] == ["0", "1", "'one'"]
    await sandbox.sessions.end(session, ME)


@pytest.mark.slow
async def test_each_cell_has_the_cpu_limit_to_itself(sandbox: LocalSandbox) -> None:
    limits = QUICK.limits.model_copy(update={"wall_time_s": 60.0})
    session = await start(sandbox, QUICK.model_copy(update={"limits": limits}))
    results = await cells(sandbox, session, *(BURN.format(0.7 * n) for n in range(1, 7)))
    assert [result.status for result in results] == [Status.ACCEPTED] * 6, results
    await sandbox.sessions.end(session, ME)


async def test_a_session_that_loses_its_slot_ends_with_a_verdict(sandbox: LocalSandbox) -> None:
    session = await start(sandbox)
    cell = asyncio.create_task(cells(sandbox, session, "import time\ntime.sleep(60)"))
    await asyncio.sleep(0.3)
    live = sandbox.sessions._live[session]
    live._slot.shutdown(socket.SHUT_RDWR)  # as the death of the slot's first process does
    (result,) = await cell
    assert (result.status, result.ended) == (Status.RUNTIME_ERROR, True), result
    assert "slot" in result.message
    with pytest.raises(NotFound):
        await cells(sandbox, session, "1")


async def test_a_client_that_goes_away_leaves_no_session(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(sandbox_max_sessions=1)
    for wait_s in (0.0, 0.001, 0.01, 0.03):
        creating = asyncio.create_task(start(sandbox))
        await asyncio.sleep(wait_s)
        creating.cancel()
        with suppress(asyncio.CancelledError):
            await sandbox.sessions.end(await creating, ME)
        while tasks := list(sandbox.sessions._tasks):
            await asyncio.gather(*tasks)
    assert len(sandbox.sessions) == 0
    session = await start(sandbox)
    ending = asyncio.create_task(sandbox.sessions.end(session, ME))
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.gather(*sandbox.sessions._tasks)
    session = await start(sandbox)
    assert (await cells(sandbox, session, "1 + 1"))[0].result == "2"
