"""A changed slot runs no further program; and the option of a loopback."""

import os
import resource
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from assay_sandbox.sandbox import LocalSandbox
from assay_shared.errors import ConfigError
from assay_shared.types import ExecutionRequest, ExecutionResult, Limits, Status
from tests.unit.sandbox.conftest import NUM_SLOTS, MakeSandbox
from tests.unit.sandbox.test_sandbox_losses import slot_processes

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = Limits(cpu_time_s=5.0, wall_time_s=10.0)


async def run(sandbox: LocalSandbox, code: str) -> ExecutionResult:
    return await sandbox.execute(ExecutionRequest(code=code, limits=LIMITS))


def inside(pid: int, path: str) -> Path:
    """A path of a slot, from outside."""
    return Path(f"/proc/{pid}/root{path}")


#: What somebody does to a slot, given its first process.
CHANGES: dict[str, Callable[[int], object]] = {
    "mode": lambda pid: inside(pid, "/w").chmod(0o755),
    "owner": lambda pid: os.chown(inside(pid, "/tmp"), 12345, -1),
    "attribute": lambda pid: os.setxattr(inside(pid, "/dev/shm"), "user.a", b"leak"),
    "limit of memory": lambda pid: resource.prlimit(pid, resource.RLIMIT_AS, (2**40, 2**40)),
    "limit of files": lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (200, 200)),
    "priority": lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 9),
    "mount": lambda pid: subprocess.run(
        ["nsenter", "-t", str(pid), "--mount", "mount", "-t", "tmpfs", "none", "/tmp"], check=True
    ),
}


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nsenter") is None, reason="needs root and nsenter"
)
@pytest.mark.parametrize("isolation", ["pooled", "fresh"])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_slot_that_has_changed_is_built_anew(
    make_sandbox: MakeSandbox, change: str, isolation: str
) -> None:
    # One slot in all: what is changed is what the next program gets.
    sandbox = await make_sandbox(sandbox_slots=1, sandbox_max_slots=1, sandbox_isolation=isolation)
    if sandbox.isolation != isolation:
        pytest.skip(f"this host does not grant isolation {isolation}")
    before = slot_processes()
    CHANGES[change](before[0])
    # The verdict of the program under which it is found stands.
    for _ in range(2):
        assert (await run(sandbox, "print(1)")).stdout == "1\n"
    assert slot_processes() != before
    result = await run(sandbox, "import os; print(os.listdir('/tmp'), os.getpriority(0, 0))")
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    assert (result.status, result.stdout) == (Status.ACCEPTED, f"[] {priority}\n")


#: What changes how large a folder seems: each leaves an entry, or none.
LEFTOVERS = {
    "file": "open('a', 'w')",
    "folder": "os.mkdir('a')",
    "nothing": "open('a', 'w'); os.unlink('a')",
    "link": "open('a', 'w'); os.link('a', 'b'); os.unlink('a')",
    "symbolic link": "os.symlink('/nowhere', 'a')",
    "fifo": "os.mkfifo('a')",
    "renamed": "open('a', 'w'); os.rename('a', 'b' * 200)",
    "renamed over another": "open('a', 'w'); open('b', 'w'); os.rename('a', 'b')",
    "moved into a folder": "os.mkdir('d'); open('a', 'w'); os.rename('a', 'd/a')",
    "moved out of a folder": "os.makedirs('d/e'); os.rename('d/e', 'e'); os.rmdir('d')",
    "folder without rights": "os.makedirs('d/e'); os.chmod('d', 0)",
    "its own text": "os.path.exists('main.py') and (os.unlink('main.py'), os.mkdir('main.py'))",
}


@pytest.mark.parametrize("how", LEFTOVERS.values(), ids=LEFTOVERS)
async def test_nothing_is_left_in_any_folder(sandbox: LocalSandbox, how: str) -> None:
    folders = ["."] if sandbox.isolation == "fallback" else [".", "/tmp", "/dev/shm"]
    for folder in folders:
        left = await run(sandbox, f"import os\nos.chdir({folder!r})\n{how}")
        assert left.status is Status.ACCEPTED, left
    shown = f"import os\nprint(*(os.listdir(folder) for folder in {folders}))"
    for _ in range(NUM_SLOTS + 1):
        result = await run(sandbox, shown)
        assert result.stdout.split() == ["['main.py']", *["[]"] * (len(folders) - 1)], result


ECHO = """
import socket, sys, threading
server = socket.socket({family}, {kind})
server.bind(({host!r}, 8123))
if {kind} == 1:
    server.listen()
    def serve():
        connection, _ = server.accept()
        connection.sendall(connection.recv(9).upper())
        connection.close()
else:
    def serve():
        data, address = server.recvfrom(9)
        server.sendto(data.upper(), address)
thread = threading.Thread(target=serve)
thread.start()
client = socket.socket({family}, {kind})
client.connect(({host!r}, 8123))
client.sendall(b"hello")
print(client.recv(9).decode())
client.close()
thread.join()
"""
REACH = """
import socket
for address in {addresses!r}:
    try: print(socket.create_connection(tuple(address), timeout=1))
    except OSError as error: print(error.errno)
"""


@pytest.mark.parametrize("isolation", ["pooled", "single_use"])
async def test_with_loopback_a_program_serves_itself_and_its_ports_are_free_for_the_next(
    make_sandbox: MakeSandbox, isolation: str
) -> None:
    sandbox = await make_sandbox(
        sandbox_slots=1,
        sandbox_isolation=isolation,
        sandbox_minimum_isolation="pooled",
        sandbox_loopback=True,
    )
    assert sandbox.isolation == {"pooled": "fresh"}.get(isolation, isolation)
    for family, kind, host in ((2, 1, "127.0.0.1"), (2, 2, "127.0.0.1"), (10, 1, "::1")):
        for _ in range(2):
            result = await run(sandbox, ECHO.format(family=family, kind=kind, host=host))
            assert (result.status, result.stdout) == (Status.ACCEPTED, "HELLO\n"), result


async def test_with_loopback_this_machine_is_out_of_reach(make_sandbox: MakeSandbox) -> None:
    sandbox = await make_sandbox(
        sandbox_slots=1, sandbox_loopback=True, sandbox_minimum_isolation="pooled"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        addresses = [server.getsockname(), ("10.0.0.1", 80), ("169.254.169.254", 80)]
        result = await run(sandbox, REACH.format(addresses=addresses))
    assert result.stdout == "111\n101\n101\n", result
    for family, kind in ((17, 3), (16, 3), (2, 3)):
        result = await run(sandbox, f"import socket; socket.socket({family}, {kind})")
        assert result.status is Status.RUNTIME_ERROR


async def test_without_namespaces_there_is_no_loopback(make_sandbox: MakeSandbox) -> None:
    with pytest.raises(ConfigError) as raised:
        await make_sandbox(sandbox_isolation="fallback", sandbox_loopback=True)
    assert raised.value.field == "ASSAY_SANDBOX_LOOPBACK"
