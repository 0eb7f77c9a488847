"""Programs with endless output on every stream: each is ended, none stops the
service.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from assay_sandbox.execution.streams import CHUNK_BYTES, RecordLines
from assay_sandbox.sandbox import LocalSandbox
from assay_shared.errors import InvalidInput, NotFound
from assay_shared.types import (
    CellResult,
    ExecutionRequest,
    ExecutionResult,
    Limits,
    SessionRequest,
    Status,
    TestReport,
    TestRequest,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

ME = "me"
LIMITS = Limits(cpu_time_s=2.0, wall_time_s=2.0, output_bytes=100_000)
#: Finds descriptors other than the standard streams that can be written to.
FIND = """\
import os, time
def find():
    found = []
    for fd in range(3, 64):
        try:
            os.write(fd, b'')
            found.append(fd)
        except OSError:
            pass
    return found
def flood(what, until):
    while time.monotonic() < until:
        for fd in find():
            try:
                os.write(fd, what)
            except OSError:
                pass
"""
FOREVER = "flood({what!r} * 65536, time.monotonic() + 60)"
#: A cell that ends at once and leaves a child, which writes to everything.
CHILD = """\
if os.fork() == 0:
    time.sleep(0.3)
    flood({what!r} * 65536, time.monotonic() + 5)
    os._exit(0)
print('cell')
"""


class Stall:
    """Return the longest time without other work of the event loop."""

    longest_s = 0.0


@asynccontextmanager
async def watched() -> AsyncIterator[Stall]:
    """Measure the stalls of the event loop while the block runs."""
    stall = Stall()

    async def tick() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)
            stall.longest_s = max(stall.longest_s, time.monotonic() - before - 0.005)

    ticking = asyncio.create_task(tick())
    try:
        yield stall
    finally:
        ticking.cancel()


async def run(sandbox: LocalSandbox, code: str, **rest: object) -> ExecutionResult:
    request = {"code": code, "limits": LIMITS} | rest
    return await sandbox.execute(ExecutionRequest.model_validate(request))


async def judge_cases(sandbox: LocalSandbox, code: str, num_cases: int) -> TestReport:
    cases = [{"kind": "call", "function": "f", "args": [], "expected": 1}] * num_cases
    request = {"code": code, "cases": cases, "limits": LIMITS.model_dump()}
    return await sandbox.test(TestRequest.model_validate(request))


async def usual_stall_s(sandbox: LocalSandbox) -> float:
    """Return the cost of a printing program, on this machine at this time."""
    async with watched() as stall:
        for _ in range(5):
            await run(sandbox, "print('x' * 50_000)")
    return stall.longest_s


async def usual_time_s(sandbox: LocalSandbox) -> float:
    """Return the time of a printing program from its request to its answer."""
    started = time.monotonic()
    await run(sandbox, "print(1)")
    return time.monotonic() - started


async def assert_is_quick(stall: Stall, sandbox: LocalSandbox) -> None:
    """Far less than the seconds of a writing program, even on a busy machine."""
    assert stall.longest_s < 0.2 + 4 * await usual_stall_s(sandbox)


@pytest.mark.parametrize("what", [b"\n", b"x", b"start 0\n", b"value 0 1\n"])
@pytest.mark.parametrize("num_cases", [0, 3])
async def test_a_flood_of_records_ends_the_program_at_once(
    sandbox: LocalSandbox, what: bytes, num_cases: int
) -> None:
    code = FIND + FOREVER.format(what=what)
    started = time.monotonic()
    async with watched() as stall:
        if num_cases:
            statuses = {one.status for one in (await judge_cases(sandbox, code, 3)).cases}
        else:
            statuses = {(await run(sandbox, code)).status}
    took_s = time.monotonic() - started
    assert took_s < LIMITS.wall_time_s + 10 * await usual_time_s(sandbox)
    ends = {Status.RUNTIME_ERROR, Status.OUTPUT_LIMIT}
    # One of the descriptors of a program with cases is its line to the grader.
    assert statuses <= (ends | {Status.UNGRADABLE} if num_cases else ends)
    await assert_is_quick(stall, sandbox)
    assert (await run(sandbox, "print(1)")).stdout == "1\n"


@pytest.mark.parametrize("stream", [1, 2])
async def test_a_flood_of_output_ends_the_program_at_once(
    sandbox: LocalSandbox, stream: int
) -> None:
    code = f"import os\nwhile True: os.write({stream}, b'x' * 2**20)"
    async with watched() as stall:
        result = await run(sandbox, code)
    assert result.status is Status.OUTPUT_LIMIT
    assert len(result.stdout + result.stderr) == LIMITS.output_bytes
    await assert_is_quick(stall, sandbox)


async def test_output_that_ends_with_the_program_is_whole(sandbox: LocalSandbox) -> None:
    """Even from an enlarged pipe, and in packets."""
    code = (
        "import fcntl, os\n"
        "fcntl.fcntl(1, 1031, 2**20)\n"  # F_SETPIPE_SZ
        "fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT)\n"
        "for n in range(90): os.write(1, b'x' * 1000)"
    )
    result = await run(sandbox, code)
    assert (result.status, len(result.stdout)) == (Status.ACCEPTED, 90_000)


@pytest.mark.slow
async def test_time_that_was_over_before_the_output_is_a_time_limit(sandbox: LocalSandbox) -> None:
    """A program cannot choose another verdict as it is ended."""
    code = "import os, time\ntime.sleep(2.5)\nos.write(1, b'x' * 10**6)"
    assert (await run(sandbox, code)).status is Status.TIME_LIMIT


async def test_a_case_cannot_restart_its_own_clock(sandbox: LocalSandbox) -> None:
    code = FIND + (
        "def f():\n"
        "    for _ in range(8):\n"
        "        time.sleep(0.5)\n"
        "        for fd in find(): os.write(fd, b'start 0\\n')\n"
        "    return 1"
    )
    (result,) = (await judge_cases(sandbox, code, 1)).cases
    # Its output on its line to the grader does not count as an answer, and ends the case as well.
    assert result.status in (Status.TIME_LIMIT, Status.UNGRADABLE)
    assert result.wall_time_s < 3.0


@pytest.mark.parametrize("what", [b"\n", b"x"])
@pytest.mark.slow
async def test_a_child_of_a_cell_that_writes_for_ever_stops_nobody(
    sandbox: LocalSandbox, what: bytes
) -> None:
    async with watched() as stall, session_of(sandbox) as cell:
        assert (await cell(FIND + CHILD.format(what=what))).stdout == "cell\n"
        for _ in range(20):
            await asyncio.sleep(0.05)
            assert (await run(sandbox, "print(1)")).stdout == "1\n"
        after = await cell("1 + 1")
        assert after.status in (Status.RUNTIME_ERROR, Status.OUTPUT_LIMIT)
        assert after.ended
    await assert_is_quick(stall, sandbox)


async def test_a_child_of_a_cell_that_prints_for_ever_grows_nothing(sandbox: LocalSandbox) -> None:
    code = (
        "import os\n"
        "if os.fork() == 0:\n"
        "    while True: os.write(1, b'x' * 65536)\n"
        "print('cell', flush=True)"
    )
    async with watched() as stall, session_of(sandbox) as cell:
        first = await cell(code)
        assert first.status in (Status.ACCEPTED, Status.OUTPUT_LIMIT)
        async with asyncio.timeout(60):
            while not (result := await cell("1 + 1")).ended:
                assert len(result.stdout) <= LIMITS.output_bytes
                await asyncio.sleep(0.2)
        assert result.status is Status.OUTPUT_LIMIT
    await assert_is_quick(stall, sandbox)


@pytest.mark.parametrize(
    "reply",
    [
        '{"status": "accepted", "result": "\\\\ud800"}',
        '{"status": "accepted", "cpu_time_s": NaN}',
        '{"status": "accepted", "message": "\\\\udc00"}',
        "[" * 500_000,
        "[]",
    ],
)
async def test_a_forged_reply_of_a_cell_is_an_answer(sandbox: LocalSandbox, reply: str) -> None:
    code = FIND + (
        "import struct\n"
        f"text = '{reply[:1]}' * {len(reply)} if {len(reply)} > 9999 else '{reply}'\n"
        "for fd in find(): os.write(fd, struct.pack('!I', len(text)) + text.encode())"
    )
    async with session_of(sandbox) as cell:
        result = await cell(code)
        result.model_dump_json()  # it can be sent
        assert result.cpu_time_s >= 0.0


async def test_a_file_that_is_written_to_a_fifo_is_refused(sandbox: LocalSandbox) -> None:
    async with session_of(sandbox) as cell:
        (session,) = sandbox.sessions._live
        await cell("import os\nos.mkfifo('pipe')\nos.mkfifo('read')\nfd = os.open('read', 2)")
        for name in ("pipe", "read"):
            with pytest.raises(InvalidInput):
                await sandbox.sessions.put_file(session, ME, name, b"content")
            with pytest.raises(NotFound):
                await sandbox.sessions.get_file(session, ME, name)
        assert (await cell("1 + 1")).result == "2"


@pytest.mark.parametrize(
    "made",
    [
        "os.mkfifo('f')",
        "os.symlink('f', 'f')",
        "for n in range(1500): os.symlink(str(n + 1), str(n))\nos.symlink('0', 'f')",
        "open('f', 'w').close(); os.chmod('f', 0)",
        "open('g', 'w').close(); os.symlink('g', 'f')",
        "os.mkdir('f')",
        "open('f', 'wb').truncate(LIMIT)",
    ],
)
async def test_a_file_that_cannot_be_picked_up_is_refused(sandbox: LocalSandbox, made: str) -> None:
    code = f"import os\nLIMIT = {LIMITS.file_bytes}\n{made}"
    result = await run(sandbox, code, fetch_files=("f",), limits=Limits())
    assert result.status is Status.ACCEPTED, result.stderr
    assert set(result.files) | set(result.refused_files) == {"f"}


async def test_many_names_of_files_to_fetch_fit(sandbox: LocalSandbox) -> None:
    names = tuple(f"{n}/" + "/".join(["[" * 250] * 7) for n in range(8))
    result = await run(sandbox, "print(1)", fetch_files=names)
    assert (result.status, set(result.refused_files)) == (Status.ACCEPTED, set(names))


@pytest.mark.slow
async def test_folders_that_are_too_deep_are_not_found(sandbox: LocalSandbox) -> None:
    if "java" not in sandbox.languages():
        pytest.skip("this host has no Java")
    package = ".".join(["a"] * 1200)
    code = f"package {package};\nclass A {{ public static void main(String[] a) {{}} }}"
    request = ExecutionRequest(code=code, language="java")
    assert (await sandbox.execute(request)).status is Status.COMPILE_ERROR


Cell = Callable[[str], "asyncio.Future[CellResult]"]


@asynccontextmanager
async def session_of(sandbox: LocalSandbox) -> AsyncIterator[Cell]:
    """A session to be ended with the block, if it lives until then."""
    session = (await sandbox.sessions.create(SessionRequest(limits=LIMITS), ME)).id

    def cell(code: str) -> "asyncio.Future[CellResult]":
        return asyncio.ensure_future(sandbox.sessions.execute(session, ME, code))

    yield cell
    if len(sandbox.sessions):
        await sandbox.sessions.end(session, ME)


def lines_of(chunks: list[bytes], num_cases: int = 1) -> tuple[list[bytes], list[bool]]:
    """Return the lines passed on, and the calls of `on_overflow`."""
    lines: list[bytes] = []
    overflows: list[bool] = []
    records = RecordLines(num_cases, 1000, lines.append, overflows.append)
    for chunk in chunks:
        records.take(chunk)
    return lines, overflows


async def test_lines_are_put_together_from_chunks() -> None:
    text = b"begun\nstart 0\nvalue 0 1\ndone\n"
    for size in (1, 3, 7, 100):
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        assert lines_of(chunks) == (text.splitlines(), [])


async def test_more_lines_than_cases_have_are_not_handed_on() -> None:
    lines, overflows = lines_of([b"\n" * CHUNK_BYTES])
    assert len(lines) == 80
    assert overflows == [True]


async def test_a_line_without_an_end_is_bounded() -> None:
    assert lines_of([b"x" * CHUNK_BYTES] * 2) == ([], [False])
