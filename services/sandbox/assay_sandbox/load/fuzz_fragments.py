"""Pieces of hostile programs: each does a thing no honest program does.

A piece is Python (or bash) text. It may use `R`, a seeded random.Random, and `fds()`, the open
descriptors. The program around it catches its errors.
"""

import random
from collections.abc import Callable

Fragment = Callable[[random.Random], str]

PRELUDE = """\
import os, random, signal, socket, sys, time
R = random.Random({seed})
def fds():
    found = []
    for fd in range(64):
        try: os.fstat(fd)
        except OSError: continue
        found.append(fd)
    return found
def put(fd, data):
    try: os.write(fd, data)
    except OSError: pass
"""

#: Lines of the program's side of a record channel, real or forged.
_RECORDS = (
    b"begun", b"done", b"start 0", b"start 1", b"start -1", b"start 99999999999999999999",
    b"start", b"start x", b"value 0 0", b"value 0 {}", b"value 0 null", b"value 7 1",
    b'value 0 {"other":"\\ud800"}', b"value 0 NaN", b"value 0 1e999", b"value 0 " + b"[" * 5000,
    b"value 0 " + b"9" * 5000, b'value 0 {"set":[[1],{}]}', b'value 0 {"dict":[1]}', b"value",
    b'raised 0 "E" ""', b"raised 0 x", b"failed 0", b"passed 0", b"error 0 \xff", b"exit 0",
    b"result 0 true", b'{"status":"accepted"}', b"syntax {}", b"memory", b"\x00" * 40, b"\xff\xfe",
    b"\xe9\x00\x00", b"killed", b"usage 0 0 0", b"value 0 " + b'{"list":' * 300, b"cell {}", b"",
)  # fmt: skip


def _random_bytes(rng: random.Random) -> str:
    size, rounds = rng.choice((1, 17, 4096, 70_000)), rng.choice((1, 3, 50))
    return f"for fd in fds():\n    for _ in range({rounds}): put(fd, R.randbytes({size}))"


def _forged_records(rng: random.Random) -> str:
    end = rng.choice((b"\n", b"", b"\r\n", b"\n\n"))
    lines = [rng.choice(_RECORDS) + end for _ in range(rng.randint(1, 6))]
    times = rng.choice((1, 1, 1, 20))
    return f"for fd in fds():\n    for line in {lines!r} * {times}: put(fd, line)"


def _flood(rng: random.Random) -> str:
    data = rng.choice((b"\n" * 65536, b"start 0\n" * 4096, b"x" * 65536, b"value 0 1\n" * 4096))
    return (
        f"data, end = {data[:10]!r} * {len(data) // 10}, time.monotonic() + {rng.random():.2f}\n"
        f"targets = R.sample(fds(), 1) if {rng.random() < 0.5} else fds()\n"
        "for fd in targets: os.set_blocking(fd, False)\n"
        "while time.monotonic() < end:\n    for fd in targets: put(fd, data)"
    )


def _rename(rng: random.Random) -> str:
    name = rng.choice((rng.randbytes(rng.randint(1, 15)), b"a) S 1 1", b") R 0 (", b"\xd0", b"\n"))
    rest = rng.choice((
        "pass",
        f"time.sleep({rng.random() / 2:.2f})",
        "import threading; t = threading.Thread(target=time.sleep, args=(.2,)); t.start()",
        "for path in ('comm', 'oom_score_adj', 'coredump_filter', 'loginuid'):\n"
        "    try: open('/proc/self/' + path, 'wb').write(b'\\xff9')\n    except OSError: pass",
    ))  # fmt: skip
    return f"import ctypes\nctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0)\n{rest}"


def _child(rng: random.Random) -> str:
    inner = rng.choice(_SIMPLE)(rng)
    body = "\n".join("        " + line for line in inner.splitlines())
    leave = rng.choice(("pass", "os.setsid()", "os.setpgid(0, 0)"))
    linger = rng.choice(("os._exit(0)", f"time.sleep({rng.random() * 3:.2f})", "signal.pause()"))
    return (
        f"for _ in range({rng.randint(1, 4)}):\n    if os.fork() == 0:\n"
        f"        {leave}\n        try:\n"
        + "\n".join("    " + line for line in body.splitlines())
        + f"\n        finally: {linger}; os._exit(0)"
    )


def _descriptors(rng: random.Random) -> str:
    return rng.choice((
        "for fd in fds(): os.close(fd)",
        "for fd in R.sample(fds(), 2): os.close(fd)",
        "os.closerange(0, 3)",
        "found = fds(); R.shuffle(found)\nfor a, b in zip(found, found[1:]): os.dup2(a, b)",
        "for fd in fds(): os.dup2(os.open('/dev/null', os.O_RDWR), fd)",
        "for fd in fds(): os.dup2(os.open('/dev/zero', os.O_RDWR), fd)",
        "kept = [os.dup(R.choice(fds())) for _ in range(900)]",
        "import fcntl\nfor fd in fds():\n"
        "    try: fcntl.fcntl(fd, 1031, R.choice((4096, 1 << 20)))\n"
        "    except OSError: pass",
        "for fd in fds():\n    try: os.set_blocking(fd, R.random() < .5)\n    except OSError: pass",
        "for fd in fds():\n    try: os.lseek(fd, R.randint(-9, 999), R.randint(0, 2))\n"
        "    except OSError: pass",
        "for fd in fds():\n"
        "    try: os.ftruncate(fd, R.choice((0, 1, 5000)))\n    except OSError: pass",
        "for fd in fds():\n    try: os.set_blocking(fd, False); os.read(fd, 99999)\n"
        "    except OSError: pass",
        "for fd in fds():\n    try: socket.socket(fileno=fd).shutdown(R.randint(0, 2))\n"
        "    except OSError: pass",
        "for fd in fds():\n"
        "    try: socket.send_fds(socket.socket(fileno=fd), [b'x'], fds())\n"
        "    except OSError: pass",
        "for fd in fds():\n    try: open(f'/proc/self/fd/{fd}', 'r+b', 0).write(b'start 0\\n')\n"
        "    except OSError: pass",
        "os.fchmod(R.choice(fds()), 0)",
        "import fcntl\nfor fd in fds():\n    try: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    except OSError: pass",
    ))  # fmt: skip


def _signals(rng: random.Random) -> str:
    target = rng.choice(("0", "1", "-1", "os.getppid()", "os.getpid()", "-os.getpid()", "2"))
    numbers = rng.choice(("range(1, 65)", f"[{rng.randint(1, 64)}]", "[19]", "[2, 15]"))
    ready = rng.choice((
        "pass",
        "for n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass",
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
        "signal.signal(signal.SIGXCPU, lambda *a: None); signal.signal(signal.SIGTERM, print)",
    ))  # fmt: skip
    return f"{ready}\nfor n in {numbers}:\n    try: os.kill({target}, n)\n    except OSError: pass"


def _rights(rng: random.Random) -> str:
    return rng.choice((
        "import resource\nfor pid in (0, 1, os.getppid()):\n    for what in range(16):\n"
        "        try: resource.prlimit(pid, what, (R.choice((0, 1, 60 << 20)),) * 2)\n"
        "        except (OSError, ValueError): pass",
        "os.umask(R.choice((0, 0o777)))",
        "os.nice(19)",
        "os.sched_setaffinity(R.choice((0, 1, os.getppid())), {0})",
        "os.sched_setscheduler(0, R.choice((0, 1, 2, 3, 5)), os.sched_param(R.choice((0, 1, 99))))",
        "for path in ('.', '/w', '/tmp', '/dev/shm', '..', '/', '/proc'):\n"
        "    try: os.chmod(path, R.choice((0, 0o7777, 0o111)))\n    except OSError: pass",
        "for path in ('.', '/w', '/tmp', '/dev/shm', '/proc/self'):\n"
        "    try: os.setxattr(path, 'user.a', b'leak')\n    except OSError: pass",
        "import ctypes\nfor option in range(1, 70):\n"
        "    if option != 22: ctypes.CDLL(None).prctl(option, R.choice((0, 1, 2, 9)), 0, 0, 0)",
        "for call in (os.setuid, os.setgid, os.seteuid, os.setegid):\n"
        "    try: call(R.choice((0, 1, 65534, 10001)))\n    except OSError: pass",
        "os.setpriority(R.randint(0, 2), R.choice((0, 1, os.getppid())), 19)",
    ))  # fmt: skip


def _files(rng: random.Random) -> str:
    name = repr(rng.choice((
        b"a", b"\xff\xfe", b"*", b"[", b"o.txt", b"x" * 255, b" ", b"-rf", b".python",
        b"sitecustomize.py",
    )))  # fmt: skip
    return rng.choice((
        f"os.mkfifo({name})",
        f"os.symlink(b'/proc/self/fd/0', {name})",
        f"os.symlink({name}, {name})",
        f"os.mkdir({name}, 0); os.chdir('/')",
        "for _ in range(600):\n    os.mkdir('d'); os.chdir('d')",
        f"open({name}, 'wb').truncate(1 << 40)",
        f"s = socket.socket(socket.AF_UNIX); s.bind({name}); s.listen()",
        "data = R.randbytes(1 << 20)\n"
        "for n in range(99):\n    with open(f'/tmp/{n}', 'wb') as f: f.write(data)",
        "for n in range(5000): open(f'f{n}', 'w').close()",
        "import shutil; shutil.rmtree('/', True); os.rmdir(os.getcwd())",
        f"os.mkdir({name}); os.rename({name}, 'zz'); os.chmod('zz', 0)",
        "for path in ('/w', '/tmp', '/dev/shm', '/'):\n"
        "    try: os.mkdir(path + '/d'); os.chmod(path + '/d', 0)\n    except OSError: pass",
    ))  # fmt: skip


def _memory(rng: random.Random) -> str:
    return rng.choice((
        "kept = []\nwhile True: kept.append(bytearray(1 << 24))",
        "import mmap\nm = mmap.mmap(-1, 900 << 20)\nfor n in range(0, 900 << 20, 4096): m[n] = 1",
        "import threading\nfor _ in range(200):"
        " threading.Thread(target=time.sleep, args=(9,)).start()",
        "for _ in range(60):\n    fd = os.memfd_create('m'); os.write(fd, bytes(16 << 20))",
        "pairs = []\nfor _ in range(200):\n    pairs.append(socket.socketpair())\n"
        "    pairs[-1][0].setblocking(False)\n    pairs[-1][0].send(bytes(1 << 20))",
        "def f(): f()\nsys.setrecursionlimit(10**9); f()",
        "while True:\n    try: os.fork()\n    except OSError: pass",
        "'%999999999d' % 1",
        "10 ** 10 ** 8",
    ))  # fmt: skip


def _interpreter(rng: random.Random) -> str:
    return rng.choice((
        "sys.stdout = None; sys.stderr = 3",
        "sys.stdout.close(); sys.stderr.close()",
        "import builtins\nfor name in dir(builtins):\n"
        "    if R.random() < .3: setattr(builtins, name, None)",
        "for name in list(sys.modules):\n    if R.random() < .5: del sys.modules[name]",
        "import gc\nfor o in gc.get_objects():\n"
        "    if type(o) is dict and R.random() < .01: o.clear()",
        "import threading\n"
        "threading.Thread(target=lambda: [time.sleep(.01) for _ in iter(int, 1)]).start()",
        "import atexit; atexit.register(os.kill, os.getpid(), R.randint(1, 31))",
        "sys.excepthook = sys.exit; sys.settrace(lambda *a: 1 / 0)",
        "os.write = os.close = os._exit = os.read = lambda *a: 0",
        "import ctypes; ctypes.string_at(R.choice((0, 1, 1 << 40)))",
        "frame = sys._getframe()\nwhile frame := frame.f_back: "
        "frame.f_locals.clear(); frame.f_globals.clear()",
        "raise R.choice((SystemExit, KeyboardInterrupt, GeneratorExit))"
        "(R.choice((None, -1, 'x', 1 << 99)))",
        "class E(Exception):\n    def __str__(self): os._exit(3)\nraise E",
        "print('\\ud800', file=sys.stderr)",
    ))  # fmt: skip


def _system_calls(rng: random.Random) -> str:
    number = rng.choice((rng.randrange(0, 470), rng.randrange(0, 470), -1, 1 << 20))
    arguments = [
        rng.choice((0, 1, -1, 2, 64, 4096, 1 << 31, rng.getrandbits(63))) for _ in range(5)
    ]
    return f"import ctypes\nctypes.CDLL(None).syscall({number}, *map(ctypes.c_long, {arguments}))"


def _sessions(rng: random.Random) -> str:
    return rng.choice((
        "os.setsid()",
        "a, b = os.openpty(); os.dup2(b, 0); os.dup2(b, 1)",
        "import pty; pty.spawn(['/bin/echo', 'x'])",
        "os.setpgid(0, 0); os.tcsetpgrp(0, os.getpid())",
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "signal.alarm(1); signal.setitimer(signal.ITIMER_REAL, .001, .001)",
        "os.unshare(os.CLONE_NEWUSER)",
    ))  # fmt: skip


def _ending(rng: random.Random) -> str:
    return rng.choice((
        f"os._exit({rng.randint(0, 255)})",
        f"sys.exit({rng.choice((0, 1, -1, 256, 1 << 40))})",
        f"os.kill(os.getpid(), {rng.randint(1, 64)})",
        "os.abort()",
        "os.execv('/bin/sh', ['sh', '-c', 'echo start 0 >&4; kill -9 $$'])",
        "os.execv('/bin/cat', ['cat', '/dev/zero'])",
        "os.execv('/bin/true', ['true'])",
        "os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])",
        "signal.pause()",
        "while True: pass",
        "1 / 0",
        "pass",
        "pass",
        "pass",
    ))  # fmt: skip


_SIMPLE: tuple[Fragment, ...] = (
    _random_bytes, _forged_records, _flood, _rename, _descriptors, _signals, _rights, _files,
    _memory, _interpreter, _system_calls, _sessions,
)  # fmt: skip
PYTHON: tuple[Fragment, ...] = (*_SIMPLE, _random_bytes, _forged_records, _rename, _child, _child)
ENDINGS: tuple[Fragment, ...] = (_ending,)


def bash_fragment(rng: random.Random) -> str:
    """Return a hostile line of bash."""
    return rng.choice((
        "for n in {0..20}; do echo 'start 0' >&$n; done 2>/dev/null",
        "for n in {0..20}; do head -c 9999 /dev/urandom >&$n; done 2>/dev/null",
        "cp /bin/sleep ./программа_сон; ./программа_сон 0.3",
        "kill -9 -1", "kill -STOP $$", "kill -9 0", "kill -INT 1; kill -TERM $PPID",
        "(setsid sleep 3 &) ; (trap '' TERM; sleep 2) &",
        "ulimit -n 3; ls", "ulimit -v 1; ls", "ulimit -f 0; echo x > f", "ulimit -u 1; ls | cat",
        "chmod 0 . /w /tmp; umask 777; echo x > y", "exec 0<&- 1>&- 2>&- 3>&- 4>&- 5>&-",
        "f() { f | f & }; f", "yes | head -c 3000000", "yes > /dev/null",
        f"exit {rng.randint(0, 255)}", f"kill -{rng.randint(1, 64)} $$", "cat",
        "exec cat /dev/zero",
        "mkdir -p $(printf 'd/%.0s' {1..400}); mkfifo o.txt", "printf '\\xff\\xfe\\x00'",
        "ln -s /proc/self/fd/0 o.txt", "echo $'\\xff' > $'\\xff'",
    ))  # fmt: skip
