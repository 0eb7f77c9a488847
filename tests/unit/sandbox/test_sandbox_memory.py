"""A program's traces in the server's memory, and the copies made by a fork of its slot."""

import asyncio
import ctypes
import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from assay_sandbox.execution.run import RunningProgram
from assay_sandbox.sandbox import LocalSandbox
from assay_sandbox.slot.confinement import kernel
from assay_shared.errors import NotFound
from assay_shared.types import (
    CallCase,
    ExecutionRequest,
    Limits,
    SessionRequest,
    StdinCase,
    TestRequest,
)
from tests.unit.sandbox.conftest import MakeSandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = Limits(cpu_time_s=5.0, wall_time_s=10.0)
#: A program takes some 360 page faults where its slot shares all pages with it, and 90 where not.
SHARED, COPIED = 300, 200
NUM_FAULTS = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)"


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def num_runs() -> int:
    return sum(type(one) is RunningProgram for one in gc.get_objects())


async def ask_everything(sandbox: LocalSandbox) -> None:
    """Run a program of each kind, with too much output or an early end too."""
    codes = ("print('a' * 10**6)", "while True: print('a' * 10**6)", "import time; time.sleep(9)")
    limits = Limits(cpu_time_s=1.0, wall_time_s=1.0)
    for code in codes:
        await sandbox.execute(ExecutionRequest(code=code, limits=limits))
    for case in (
        StdinCase(stdin="1", expected_stdout="1"),
        CallCase(function="f", args=[1], expected=1),
    ):
        code = "f = int\nprint(1)"
        await sandbox.test(TestRequest(code=code, cases=[case], limits=LIMITS))
    for cell in ("print('a' * 10**6)", "import os; os._exit(1)"):
        session = await sandbox.sessions.create(SessionRequest(limits=LIMITS), "me")
        with suppress(NotFound):  # the second ends itself
            await sandbox.sessions.execute(session.id, "me", cell)
            await sandbox.sessions.end(session.id, "me")


@pytest.mark.slow
async def test_what_a_program_printed_does_not_wait_for_the_collector(
    sandbox: LocalSandbox,
) -> None:
    await ask_everything(sandbox)
    with without_collector():
        before = num_runs()
        await ask_everything(sandbox)
        await asyncio.sleep(0.1)
        assert num_runs() == before


def is_granted_io_uring() -> bool:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    fd = kernel.syscall(425, 1, ctypes.create_string_buffer(120))
    if fd >= 0:
        os.close(fd)
    return fd >= 0 and (soft == resource.RLIM_INFINITY or soft >= 4 * 2**20)


@pytest.fixture(params=[True, False], ids=["may lock memory", "may lock none"])
def may_pin(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Return True if the slots of a sandbox made now may pin memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if not request.param:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, hard))
    yield is_granted_io_uring()
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))


async def test_a_fork_has_copied_what_every_program_writes_to(
    make_sandbox: MakeSandbox, may_pin: bool
) -> None:
    sandbox = await make_sandbox(sandbox_isolation="pooled")
    if sandbox.isolation != "pooled":
        pytest.skip("this host does not grant isolation pooled")
    for _ in range(4):
        ran = await sandbox.execute(ExecutionRequest(code=NUM_FAULTS, limits=LIMITS))
        assert int(ran.stdout) < COPIED if may_pin else int(ran.stdout) > SHARED


async def test_a_program_has_no_hold_on_pinned_memory(sandbox: LocalSandbox) -> None:
    code = (
        "import os, resource\n"
        "print(resource.getrlimit(resource.RLIMIT_MEMLOCK))\n"
        "for fd in range(256):\n"
        "    try: os.fstat(fd)\n"
        "    except OSError: continue\n"
        "    try: name = os.readlink(f'/proc/self/fd/{fd}')\n"
        "    except OSError: name = '?'\n"
        "    if 'io_uring' in name: print(fd, name)\n"
    )
    ran = await sandbox.execute(ExecutionRequest(code=code, limits=LIMITS))
    assert (ran.status, ran.stdout) == ("accepted", "(0, 0)\n")
