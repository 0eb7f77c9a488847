"""Programs with the service's own user, as in the documented container, against each other."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.support import plain_user
from tests.support.plain_user import PlainUserSandbox

pytestmark = pytest.mark.skipif(
    plain_user.WHY_NOT is not None, reason=plain_user.WHY_NOT or "it can be started"
)
#: What is served where it is asked for.
SERVED = {"pooled": "fresh", "single_use": "single_use", "fallback": "fallback"}
SYSCALL = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
#: Each tries to spoil its slot, or the service, for the programs after it.
ATTACKS = {
    "memory limit of the first process": (
        "import os, resource\n"
        "for pid in {1, os.getppid(), PARENT}:\n"
        "    resource.prlimit(pid, resource.RLIMIT_AS, (60 << 20,) * 2)"
    ),
    "file limits of the first process": (
        "import os, resource\n"
        "for pid in {1, os.getppid(), PARENT}:\n"
        "    for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):\n"
        "        resource.prlimit(pid, kind, (1, 1))"
    ),
    "CPU limit of whatever can be found": (
        "import resource\n"
        "for pid in range(1, 40000):\n"
        "    try: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1))\n"
        "    except OSError: pass"
    ),
    "folders closed": (
        "import os\n"
        "for folder in ('/w', '/tmp', '/dev/shm', '.', '..', '../..'):\n"
        "    try: os.chmod(folder, 0)\n"
        "    except OSError: pass"
    ),
    "folders closed by descriptor": (
        "import os\n"
        "for folder in ('.', '..', '/w', '/tmp'):\n"
        "    try:\n"
        "        os.fchmod(os.open(folder, os.O_RDONLY), 0)\n"
        "    except OSError: pass\n"
        "    try: os.chmod(f'/proc/self/fd/{os.open(folder, os.O_PATH)}', 0)\n"
        "    except OSError: pass"
    ),
    "folder full of closed folders": (
        "import os\n"
        "for i in range(300):\n"
        "    os.mkdir(f'd{i}'); os.mkdir(f'd{i}/e'); open(f'd{i}/e/f', 'w')\n"
        "    try: os.chmod(f'd{i}/e', 0); os.chmod(f'd{i}', 0)\n"
        "    except OSError: pass"
    ),
    "attributes": (
        "import os\n"
        "for folder in ('.', '/w', '/tmp', '/dev/shm'):\n"
        "    try: os.setxattr(folder, 'user.a', b'leak')\n"
        "    except OSError: pass"
    ),
    "flags of a folder": (
        "import fcntl, os, struct\n"
        "for flags in (0x10, 0x20, 0x80, 0x800000):\n"
        "    try: fcntl.ioctl(os.open('.', 0), 0x40086602, struct.pack('l', flags))\n"
        "    except OSError: pass"
    ),
    "signals to the first process": (
        "import os\n"
        "for number in range(1, 65):\n"
        "    for pid in {1, os.getppid(), PARENT}:\n"
        "        try: os.kill(pid, number)\n"
        "        except OSError: pass"
    ),
    "signals to everybody else": (
        "import os, signal\n"
        "me = os.getpid()\n"
        "for pid in range(2, 40000):\n"
        "    if pid == me: continue\n"
        "    for number in (signal.SIGSTOP, signal.SIGKILL):\n"
        "        try: os.kill(pid, number)\n"
        "        except OSError: pass"
    ),
    "signals by other calls": (
        SYSCALL + "for pid in {1, os.getppid(), PARENT}:\n"
        "    libc.syscall(234, pid, pid, 9); libc.syscall(200, pid, 9)\n"
        "    fd = libc.syscall(434, pid, 0); libc.syscall(424, fd, 9, 0, 0)"
    ),
    "scheduling of the first process": (
        "import os\n"
        "for pid in {1, os.getppid(), PARENT}:\n"
        "    for change in (lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),\n"
        "                   lambda: os.setpriority(os.PRIO_USER, 0, 19),\n"
        "                   lambda: os.sched_setscheduler(pid, 5, os.sched_param(0)),\n"
        "                   lambda: os.sched_setaffinity(pid, {0})):\n"
        "        try: change()\n"
        "        except OSError: pass"
    ),
    "the last that is ended for memory": (
        "for who in ('self', 1, PARENT):\n"
        "    try: open(f'/proc/{who}/oom_score_adj', 'w').write('-1000')\n"
        "    except OSError: pass"
    ),
    "host name and settings of the kernel": (
        "import os, socket\n"
        "for change in (lambda: socket.sethostname('leak'),\n"
        "               lambda: open('/proc/sys/kernel/hostname', 'w').write('leak'),\n"
        "               lambda: open('/proc/sys/vm/overcommit_memory', 'w').write('2')):\n"
        "    try: change()\n"
        "    except OSError: pass"
    ),
    "children that outlive it": (
        "import os, signal, time\n"
        "for _ in range(8):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0:\n"
        "            for number in range(1, 65):\n"
        "                try: signal.signal(number, signal.SIG_IGN)\n"
        "                except (OSError, ValueError): pass\n"
        "            time.sleep(60)\n"
        "        os._exit(0)\n"
    ),
    "as many processes as it may": (
        "import os, time\n"
        "while True:\n"
        "    try:\n"
        "        if os.fork() == 0: time.sleep(60)\n"
        "    except OSError: break"
    ),
    "as many files as it can": (
        "import os, time\n"
        "end = time.time() + 1\n"
        "n = 0\n"
        "try:\n"
        "    while time.time() < end:\n"
        "        n += 1; open(f'{n}', 'w').close()\n"
        "except OSError: pass"
    ),
    "work folder renamed and replaced": (
        "import os\n"
        "here = os.getcwd()\n"
        "for change in (lambda: os.rename(here, here + '.old'), lambda: os.rmdir(here),\n"
        "               lambda: os.symlink('/etc', here)):\n"
        "    try: change()\n"
        "    except OSError: pass"
    ),
    "names, pipes and sockets left": (
        "import os, socket\n"
        "open(b'\\xff\\n', 'w'); os.mkfifo('p'); os.symlink('/', 'l'); os.link(b'\\xff\\n', 'h')\n"
        "try: socket.socket(socket.AF_UNIX).bind('s')\n"
        "except OSError: pass"
    ),
    "a lock on the service's files": (
        "import fcntl, os\n"
        "for path in ('../lock', '../../lock', '/usr/bin/env'):\n"
        "    try: fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX)\n"
        "    except OSError: pass"
    ),
}
INNOCENT = """
import os, resource, signal, subprocess, tempfile
assert len(bytearray(100 << 20)) == 100 << 20
assert subprocess.call(['true']) == 0
print(sorted(set(os.listdir('.')) - {'main.py'}), os.listxattr('.'))
print(oct(os.stat('.').st_mode & 0o700))
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), len(os.sched_getaffinity(0)))
print(resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_NOFILE))
print(signal.getsignal(signal.SIGINT), os.uname().nodename == 'leak', os.umask(0o22))
open('a', 'w').write('x' * 2**20)
with tempfile.TemporaryFile() as file: file.write(b'x' * 2**20)
"""


@pytest.fixture(scope="module", params=SERVED)
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlainUserSandbox]:
    folder = tmp_path_factory.mktemp("slots")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    with plain_user.opened(folder, request.param) as sandbox:
        if sandbox.isolation != SERVED[request.param]:
            pytest.skip(f"this host does not grant isolation {request.param}")
        yield sandbox


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_changes_nothing_for_the_programs_after_it(
    sandbox: PlainUserSandbox, name: str
) -> None:
    before = sandbox.run(INNOCENT)
    assert before["status"] == "accepted", before
    sandbox.run(f"PARENT = {sandbox.pid}\n{ATTACKS[name]}")
    for _ in range(2):
        after = sandbox.run(INNOCENT)
        assert (after["status"], after["stdout"]) == ("accepted", before["stdout"]), after


def test_nothing_of_a_program_lives_on(sandbox: PlainUserSandbox) -> None:
    result = sandbox.run(OUTLIVES)
    assert result["status"] == "accepted", result
    wait_until(lambda: not sleepers(), "what the program started to end", timeout_s=5)


#: Its child sleeps under another name, and says so before the program ends.
OUTLIVES = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.execlp('sleep', 'sleep', '4712.3')
    os._exit(0)
time.sleep(0.3)
"""


def sleepers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if b"4712.3" in (path / "cmdline").read_bytes():
                found.append(path.name)
    return found
