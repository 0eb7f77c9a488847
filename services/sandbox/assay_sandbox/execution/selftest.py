"""Escape tests: before it serves, a sandbox tries to break out of its slots."""

import socket

from assay_sandbox.execution.pool import Pool
from assay_sandbox.execution.program import Program, Records
from assay_sandbox.execution.run import RunningProgram
from assay_sandbox.languages.languages import LANGUAGES
from assay_sandbox.slot.confinement.seccomp import numbers_here
from assay_shared.errors import SandboxFault
from assay_shared.types import Limits

#: Attempts by name. Each prints ESCAPED if it succeeds, and nothing if the slot holds it.
ESCAPES = {
    "reads a file of the host": "open('/etc/shadow')",
    "sees the processes of the host": (
        "assert sum(name.isdigit() for name in os.listdir('/proc')) > 4"
    ),
    "connects to this machine": (
        "import socket\ns = socket.socket(); s.settimeout(1)\ns.connect(('127.0.0.1', PORT))"
    ),
    "opens a raw socket": "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "becomes root": "import os; assert os.getuid(); os.setuid(0)",
    "makes a user namespace": "assert call('unshare', 0x10000000) == 0",
    "mounts a file system": "assert call('mount', b'none', b'/tmp', b'tmpfs', 0, 0) == 0",
    "traces its parent": "assert call('ptrace', 16, os.getppid(), 0, 0) == 0",
    "kills its parent": (
        "parent = os.getppid(); os.kill(parent, 9); time.sleep(0.2); assert os.getppid() != parent"
    ),
    "reads its parent's memory": "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
    "reads its parent's environment": "assert open(f'/proc/{os.getppid()}/environ', 'rb').read()",
    "opens an io_uring": "assert call('io_uring_setup', 1, bytes(120)) >= 0",
    "loads a kernel program": "assert call('bpf', 0, 0, 0) != -1",
    "writes to the system's folders": "open('/usr/escaped', 'w')",
}
_FRAME = """
import ctypes, os, time
_libc = ctypes.CDLL(None, use_errno=True)
PORT = {port}
numbers = {numbers!r}
def call(name, *arguments):
    return _libc.syscall(numbers[name], *arguments)
try:
    exec({code!r})
except BaseException:
    pass
else:
    print("ESCAPED")
"""
_LIMITS = Limits(cpu_time_s=2.0, wall_time_s=5.0)


async def find_escapes(pool: Pool) -> list[str]:
    """Return the names of the successful escapes from a slot; empty if the slot holds all."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        return [name for name, code in ESCAPES.items() if await _escapes(pool, code, port)]


async def _escapes(pool: Pool, code: str, port: int) -> bool:
    records = Records()
    text = _FRAME.format(code=code, numbers=numbers_here(), port=port)
    plan = Program(LANGUAGES["python"], _LIMITS, text=text).plan()

    def take(_: RunningProgram, line: bytes) -> None:
        records.take(line)

    try:
        ending = await pool.play(plan, take)
    except SandboxFault:
        return True  # it brought its slot down
    return b"ESCAPED" in ending.stdout
