"""Hostile programs at every level of isolation: the verdict, and a clean machine afterwards."""

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry

from assay_sandbox.execution.isolation import LEVELS
from assay_sandbox.sandbox import LocalSandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.types import ExecutionRequest, ExecutionResult, Limits, Status

LIMITS = Limits(cpu_time_s=1.0, wall_time_s=1.5, memory_bytes=256 * 2**20, output_bytes=2**20)
ROOT = Path(__file__).parents[2]
ENDED = {Status.TIME_LIMIT, Status.RUNTIME_ERROR, Status.MEMORY_LIMIT}
REFUSED = {Status.RUNTIME_ERROR}
#: How soon after a program's end nothing of it may be left.
CLEAN_WITHIN_S = 0.1
#: Without folders in memory, a gigabyte or many files take as long to remove as the disk needs.
DISK_CLEAN_WITHIN_S = 5.0
#: The bound is for the sandbox; what else the machine does may take longer, many times in a row.
ATTEMPTS = 10


@dataclass(frozen=True)
class Abuse:
    """A program and how it may end. `never` must not be in its output."""

    code: str
    expected: set[Status]
    never: str = "ESCAPED"
    stdin: str = ""


def refused(code: str) -> Abuse:
    """Return a program with a last line that must raise."""
    return Abuse(f"{code}\nprint('ESCAPED')", REFUSED)


def denied(number: int, *arguments: str) -> Abuse:
    """Return a program with a system call (x86_64) that must fail."""
    call = ", ".join([str(number), *arguments])
    return Abuse(
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"if libc.syscall({call}) >= 0: print('ESCAPED')",
        {Status.ACCEPTED},
    )


ABUSES = {
    "fork bomb": Abuse(
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", ENDED
    ),
    "thread bomb": Abuse(
        "import threading, time\n"
        "while True: threading.Thread(target=time.sleep, args=(99,)).start()",
        ENDED,
    ),
    "memory bomb": Abuse("x = []\nwhile True: x.append(bytearray(2**20))", {Status.MEMORY_LIMIT}),
    "memory bomb in many processes": Abuse(
        "import os, time\n"
        "for _ in range(20):\n"
        "    if os.fork() == 0:\n"
        "        x = bytearray(b'x') * (40 * 2**20)\n"
        "        time.sleep(9)\n"
        "time.sleep(0.8)\n"
        "print('all of it')",
        {Status.MEMORY_LIMIT, Status.ACCEPTED, Status.TIME_LIMIT},
    ),
    "disk fill": Abuse(
        "n = 0\nwhile True:\n    n += 1\n    open(str(n), 'wb').write(bytes(2**20))", ENDED
    ),
    "inode fill": Abuse("n = 0\nwhile True:\n    n += 1\n    open(f'{n}.txt', 'w')", ENDED),
    "shared memory fill": Abuse(
        "f = open('/dev/shm/a', 'wb')\nwhile True: f.write(bytes(2**20))", ENDED
    ),
    "sparse file": refused("f = open('big', 'wb')\nf.seek(2**40)\nf.write(b'x')\nf.flush()"),
    "output flood": Abuse("while True: print('x' * 10_000)", {Status.OUTPUT_LIMIT}),
    "error flood": Abuse(
        "import sys\nwhile True: sys.stderr.write('x' * 10_000)", {Status.OUTPUT_LIMIT}
    ),
    "loop": Abuse("while True: pass", {Status.TIME_LIMIT}),
    "sleep": Abuse("import time\ntime.sleep(99)", {Status.TIME_LIMIT}),
    "fifo": Abuse("import os\nos.mkfifo('f')\nopen('f')", {Status.TIME_LIMIT}),
    "closes its output and loops": Abuse(
        "import os\nos.close(1)\nos.close(2)\nwhile True: pass", {Status.TIME_LIMIT}
    ),
    "ignores all signals": Abuse(
        "import signal\n"
        "for number in range(1, 65):\n"
        "    try: signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "while True: pass",
        {Status.TIME_LIMIT},
    ),
    "daemon": Abuse(
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: time.sleep(99)\n"
        "    os._exit(0)\n"
        "print('done')",
        {Status.ACCEPTED},
    ),
    "many descriptors": refused(
        "import os\nkept = []\nwhile True: kept.append(os.open('/dev/null', 0))"
    ),
    "deep folders": Abuse(
        "import os\nfor _ in range(900):\n    os.mkdir('d')\n    os.chdir('d')", {Status.ACCEPTED}
    ),
    "a folder closed to all": Abuse(
        "import os\nos.mkdir('a')\nopen('a/b', 'w')\nos.chmod('a', 0)", {Status.ACCEPTED}
    ),
    "names that are not text": Abuse(
        "import os\nopen(b'new\\nline', 'w')\nopen(b'\\xff\\xfe', 'w')", {Status.ACCEPTED}
    ),
    "a link out": Abuse("import os\nos.symlink('/etc/shadow', 'out')", {Status.ACCEPTED}),
    "stack overflow": Abuse("import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", ENDED),
    "segmentation fault": Abuse("import ctypes\nctypes.string_at(0)", REFUSED),
    "abort": Abuse("import os\nos.abort()", REFUSED),
    "reads the parent's environment": refused(
        "import os\nopen(f'/proc/{os.getppid()}/environ', 'rb').read()"
    ),
    "reads the parent's memory": refused(
        "import os\nopen(f'/proc/{os.getppid()}/mem', 'rb').read(1)"
    ),
    "reads the password file of the host": refused("open('/etc/shadow')"),
    "lists the host's folders": refused("import os\nos.listdir('/srv')"),
    "connects to this machine": refused(
        "import socket\nsocket.create_connection(('127.0.0.1', 22), timeout=1)"
    ),
    "sends a datagram": refused(
        "import socket\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 53))"
    ),
    "opens a raw socket": refused(
        "import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW)"
    ),
    "opens a netlink socket": refused("import socket\nsocket.socket(socket.AF_NETLINK, 3)"),
    "becomes root": refused("import os\nassert os.getuid() != 0\nos.setuid(0)"),
    "asks to be the last that is ended for memory": refused(
        "open('/proc/self/oom_score_adj', 'w').write('0')"
    ),
    "kills everybody": Abuse(
        "import os\ntry: os.kill(-1, 9)\nexcept OSError: pass", {Status.ACCEPTED, *REFUSED}
    ),
    "kills its parent": Abuse(
        "import os, time\ntry: os.kill(os.getppid(), 9)\nexcept OSError: pass\ntime.sleep(0.1)",
        {Status.ACCEPTED},
    ),
    "stops its parent": Abuse(
        "import os, signal, time\n"
        "try: os.kill(os.getppid(), signal.SIGSTOP)\n"
        "except OSError: pass\n"
        "time.sleep(0.1)",
        {Status.ACCEPTED},
    ),
    "closes its folder": Abuse(
        "import os\ntry: os.chmod('.', 0)\nexcept OSError: pass", {Status.ACCEPTED}
    ),
    "marks its folders": Abuse(
        "import os\n"
        "for folder in ('.', '/tmp', '/dev/shm'):\n"
        "    try: os.setxattr(folder, 'user.a', b'leak')\n"
        "    except OSError: pass",
        {Status.ACCEPTED},
    ),
    "limits its parent": refused(
        "import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_AS, (1, 1))"
    ),
    "slows its parent": refused("import os\nos.setpriority(os.PRIO_PROCESS, os.getppid(), 19)"),
    "interrupts its parent": Abuse(
        "import os, signal, time\n"
        "try: os.kill(os.getppid(), signal.SIGINT)\n"
        "except OSError: pass\n"
        "time.sleep(0.1)",
        {Status.ACCEPTED},
    ),
    "ptrace": denied(101, "16", "os.getppid()", "0", "0"),
    "unshare a user namespace": denied(272, "0x10000000"),
    "clone into a user namespace": denied(56, "0x10000000 | 17", "0", "0", "0", "0"),
    "mount": denied(165, "b'none'", "b'/tmp'", "b'tmpfs'", "0", "0"),
    "bpf": denied(321, "0", "0", "0"),
    "io_uring": denied(425, "1", "bytes(120)"),
    "userfaultfd": denied(323, "0"),
    "keyctl": denied(250, "0", "-3", "1"),
    "personality": denied(135, "0x0040000"),
    "System V shared memory": denied(29, "0", "4096", "0o1600"),
    "POSIX message queue": denied(240, "b'/q'", "0o102", "0o600", "0"),
    "process_vm_readv": denied(310, "os.getppid()", "0", "0", "0", "0", "0"),
}
CHECK = (
    "import os\n"
    "folders = list(dict.fromkeys((os.getcwd(), os.environ['TMPDIR'])))\n"
    "seen = [look(f) for f in folders for look in (os.listdir, os.listxattr)]\n"
    "if os.environ['TMPDIR'] == '/tmp':\n"
    "    seen.append(os.listdir('/dev/shm'))\n"
    "    seen.append([p for p in os.listdir('/proc') if p.isdigit()][3:])\n"
    "seen = [[name for name in one if name != 'main.py'] for one in seen]\n"
    "print([s for s in seen if s])\n"
)


class WatchedSandbox(LocalSandbox):
    """With its metrics."""

    def __init__(self, settings: SandboxSettings) -> None:
        self.registry = CollectorRegistry()
        super().__init__(settings, self.registry)

    @property
    def clean_s(self) -> float:
        """Return the seconds of cleaning, in all."""
        return self.registry.get_sample_value("assay_sandbox_clean_seconds_sum") or 0.0


async def open_sandbox(num_slots: int, isolation: str) -> WatchedSandbox:
    values = {
        "sandbox_slots": num_slots,
        "sandbox_isolation": isolation,
        "sandbox_minimum_isolation": "fallback",
    }
    sandbox = WatchedSandbox(SandboxSettings.model_validate(values))
    await sandbox.open()
    return sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=LEVELS)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[WatchedSandbox]:
    """A single slot: the next program runs in the hostile program's place."""
    sandbox = await open_sandbox(1, request.param)
    if sandbox.isolation != request.param:
        await sandbox.close()
        pytest.skip(f"this host does not grant isolation {request.param}")
    yield sandbox
    await sandbox.close()


async def run(sandbox: LocalSandbox, code: str, stdin: str = "") -> ExecutionResult:
    return await sandbox.execute(ExecutionRequest(code=code, stdin=stdin, limits=LIMITS))


@pytest.mark.parametrize("name", ABUSES)
@pytest.mark.asyncio(loop_scope="module")
async def test_abuse_is_judged_and_leaves_nothing(sandbox: WatchedSandbox, name: str) -> None:
    abuse = ABUSES[name]
    disk_names = ("disk fill", "inode fill", "deep folders")
    on_disk = sandbox.isolation == "fallback" and name in disk_names
    limit_s = DISK_CLEAN_WITHIN_S if on_disk else CLEAN_WITHIN_S
    expected = abuse.expected
    if sandbox.isolation == "fallback" and os.getuid() != 0 and name == "a folder closed to all":
        expected = REFUSED  # all slots have the service's user, who could not clean up
    took_s: list[float] = []
    while min(took_s, default=limit_s) >= limit_s and len(took_s) < ATTEMPTS:
        before_s = sandbox.clean_s
        result = await run(sandbox, abuse.code, abuse.stdin)
        took_s.append(sandbox.clean_s - before_s)
        assert result.status in expected, result
        assert abuse.never not in result.stdout
        after = await run(sandbox, CHECK)
        assert after.stdout == "[]\n", after
    assert min(took_s) < limit_s


@pytest.mark.asyncio(loop_scope="module")
async def test_neighbours_of_a_fork_bomb_go_on(sandbox: LocalSandbox) -> None:
    both = await open_sandbox(2, sandbox.isolation)
    try:
        bomb = asyncio.create_task(run(both, ABUSES["fork bomb"].code))
        for _ in range(20):
            result = await run(both, "import subprocess\nprint(subprocess.call(['true']))")
            assert (result.status, result.stdout) == (Status.ACCEPTED, "0\n")
        assert (await bomb).status in ENDED
    finally:
        await both.close()


REACH_SOCKETS = """
import socket
stream, datagram = {paths!r}
try:
    client = socket.socket(socket.AF_UNIX)
    client.connect(stream)
    print(client.recv(99))
except OSError as error: print(error.errno)
try:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    pair[0].sendto(b"reached", datagram)
    print("sent")
except OSError as error: print(error.errno)
"""


@dataclass(frozen=True)
class HostSockets:
    """Return the sockets within reach of every user of this machine, by path."""

    paths: tuple[str, str]
    datagram: socket.socket


@pytest.fixture
def host_sockets() -> Iterator[HostSockets]:
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX) as stream,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
    ):
        Path(folder).chmod(0o777)
        paths = (f"{folder}/stream", f"{folder}/datagram")
        for listener, path in zip((stream, datagram), paths, strict=True):
            listener.bind(path)
            Path(path).chmod(0o777)
        stream.listen()
        datagram.setblocking(False)
        yield HostSockets(paths, datagram)


@pytest.mark.asyncio(loop_scope="module")
async def test_sockets_of_this_machine_are_out_of_reach(
    sandbox: LocalSandbox, host_sockets: HostSockets
) -> None:
    result = await run(sandbox, REACH_SOCKETS.format(paths=host_sockets.paths))
    assert result.status is Status.ACCEPTED
    assert result.stdout.split() in (["97", "97"], ["2", "2"])
    with pytest.raises(BlockingIOError):
        host_sockets.datagram.recv(9)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_slots_processes_do_not_show_what_the_service_told_them(
    sandbox: LocalSandbox,
) -> None:
    code = (
        "for who in ('1', 'self'):\n"
        "    for name in ('cmdline', 'environ'):\n"
        "        try: print(repr(open(f'/proc/{who}/{name}', 'rb').read()))\n"
        "        except OSError: print('closed')\n"
    )
    shown = (await run(sandbox, code)).stdout
    assert len(shown.splitlines()) == 4
    for told in (sys.base_prefix, str(ROOT), "readable", "first_uid", "OPENBLAS"):
        assert told not in shown, shown
