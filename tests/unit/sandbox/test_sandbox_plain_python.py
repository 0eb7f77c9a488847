"""Odd programs, each run by plain `python main.py` and in a slot: same ending, same output."""

import asyncio
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from assay_sandbox.execution.host import Host, find_packages
from assay_sandbox.execution.interpreter import make_interpreter
from assay_sandbox.sandbox import LocalSandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.types import CallCase, ExecutionRequest, SessionRequest, Status, TestRequest
from tests.unit.sandbox.conftest import MakeSandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

ME = "me"
STDIN = "a b\r\nc\nä\n"
FILES = {
    "helper.py": b"x = 7\nclass D:\n    def __init__(self, n): self.n = n\n"
    b"    def __del__(self): print('del', self.n)\n",
    "pkg/__init__.py": b"",
    "pkg/mod.py": b"y = 8\n",
}
_D = "from helper import D\n"
_BAD_HOOK = "import sys\ndef h(*a): raise ValueError('in hook')\nsys.excepthook = h\n1/0"
PROGRAMS = {
    # What watches calls is not called by what ends the program.
    "a trace that stays": (
        "import sys\ndef t(f, e, a): print(f.f_code.co_name, e)\nsys.settrace(t)\n"
        "def f(): pass\nf()"
    ),
    "a trace that fails": "import sys\nsys.settrace(lambda f, e, a: 1 / 0)\nprint('x')",
    # How it ends.
    "exit": "print(42)\nexit()",
    "quit": "print(42)\nquit()",
    "exit with text": "exit('text')",
    "exit with a large number": "import sys; sys.exit(300)",
    "exit with a number below zero": "import sys; sys.exit(-1)",
    "exit with a number of no machine": "import sys; sys.exit(2**70)",
    "exit with a bool": "raise SystemExit(True)",
    "exit with a list": "raise SystemExit([1, 2])",
    "exit with what cannot be shown": (
        "class A:\n    def __str__(self): 1/0\nraise SystemExit(A())"
    ),
    "exit is caught": "try: exit()\nexcept SystemExit as e: print(repr(e))\nprint('on')",
    "an exception": "def f():\n    1/0\nf()",
    "a cause": "try:\n    1/0\nexcept Exception as e:\n    raise ValueError from e",
    "a hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0])\n1/0",
    "a hook that exits well": "import sys\nsys.excepthook = lambda *a: sys.exit(0)\n1/0",
    "a hook that fails": _BAD_HOOK,
    "no hook": "import sys\ndel sys.excepthook\n1/0",
    "an interrupt": "raise KeyboardInterrupt",
    "an interrupt by signal": "import os, time\nos.kill(os.getpid(), 2)\ntime.sleep(2)",
    "a signal": "import os\nos.kill(os.getpid(), 15)",
    "_exit in a handler after a crash": "import atexit, os\natexit.register(os._exit, 0)\n1/0",
    "a fork that crashes": "import os\nif os.fork() == 0: 1/0\nprint(os.wait()[1])",
    "a low recursion limit": "import sys\nsys.setrecursionlimit(5)\nprint(1)",
    # Threads, exit handlers, modules.
    "a thread": "import threading, time\nthreading.Timer(.05, print, ('tick',)).start()",
    "a busy daemon": (
        "import threading\ndef f():\n    while 1: pass\n"
        "threading.Thread(target=f, daemon=True).start()\nprint('m')"
    ),
    "a thread that fails": "import threading\nthreading.Thread(target=lambda: 1/0).start()",
    "a pool left alone": (
        "from concurrent.futures import ThreadPoolExecutor as T\nT(1).submit(print, 'late')"
    ),
    "exit handlers": "import atexit\natexit.register(print, 1)\natexit.register(lambda: 1/0)",
    "an exit handler's file": "import atexit\natexit.register(lambda: print(__file__))",
    "del": _D + "a = D('a')\nb = D('b')\n_c = D('c')",
    "del of a cycle": _D + "a = D(1)\na.me = a\nb = D(2)",
    "del without a collector": _D + "import gc\ngc.disable()\na = D(1)\na.a = a\ndel a\nb = D(2)",
    "del after a crash": _D + "a = D(1)\n1/0",
    "del in order": _D + "l = [D('l')]\nd = {'x': D('x')}\ndef f(x=D('default')): pass",
    "del sees globals": "x = 'hello'\nclass A:\n    def __del__(s): print(x)\na = A()",
    "a live generator": (
        "def g():\n    try:\n        yield\n    finally: print('fin')\nx = g()\nnext(x)"
    ),
    "a weak reference": (
        "import weakref\nclass A: pass\na = A()\nr = weakref.ref(a, lambda r: print('dead'))"
    ),
    "no modules": "import sys\nsys.modules.clear()",
    # Streams.
    "stdout None": "import sys\nprint(1)\nsys.stdout = None",
    "stdout closed": "import sys\nprint(1)\nsys.stdout.close()",
    "descriptor 1 closed": "import os\nprint(1)\nos.close(1)",
    "stderr None": "import sys\nsys.stderr = None\n1/0",
    "another stdout": (
        "import io, sys\nsys.stdout = io.StringIO()\nprint('x')\n"
        "sys.__stdout__.write(sys.stdout.getvalue())"
    ),
    "a wrapper": (
        "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'latin-1')\nprint('ä')"
    ),
    "fdopen": "import os\nf = os.fdopen(1, 'w')\nf.write('hello')",
    "a buffer": "import io\nb = io.BufferedWriter(io.FileIO(1, 'w'))\nb.write(b'hello')",
    "/dev/stdout": "open('/dev/stdout', 'w').write('hi')",
    "a stdout that cannot be flushed": (
        "import sys\nclass S:\n    def write(s, x): pass\n    def flush(s): raise ValueError(1)\n"
        "sys.stdout = S()\nexit(3)"
    ),
    "a pipe without reader": (
        "import os\nr, w = os.pipe()\nos.dup2(w, 1)\nos.close(r)\nos.close(w)\nprint('x')"
    ),
    "line ends of stdin": "import sys\nprint(repr(input()), repr(sys.stdin.read()))",
    "streams": (
        "import sys\nfor f in sys.stdin, sys.stdout, sys.stderr:\n"
        "    print(f, f.line_buffering, f.write_through, f.errors, f.buffer, f.buffer.raw)"
    ),
    # The text.
    "a byte order mark": "\ufeffprint('bom')",
    "an encoding": "# -*- coding: latin-1 -*-\nprint('é'.encode())",
    "form feeds and line ends": "\x0cprint(1)\r\nx = '''a\r\nb'''\nprint(repr(x))\r",
    "no syntax": "def f(:\n    pass",
    "no indentation": "if 1:\nprint(1)",
    "parentheses too deep": "(" * 300 + ")" * 300,
    # What it finds.
    "names": "print({**globals()}.keys(), __file__[-8:], __spec__, __builtins__.__name__)",
    "its own text": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))",
    "builtins": "print(help, copyright, credits, license, exit, quit)",
    "no frames": "import inspect, sys\nprint(len(inspect.stack()), sys._getframe().f_back)",
    "as many frames": (
        "def f(n):\n    global d\n    d = n\n    f(n + 1)\ntry: f(1)\n"
        "except RecursionError: print(d)\nimport sys\nprint(sys.getrecursionlimit())"
    ),
    "flags": (
        "import sys\nprint(sys.flags, sys.argv, sys.warnoptions, sys._xoptions, sys.orig_argv[1:],"
        " [p.rpartition('/')[2] for p in sys.path[1:]], sys.dont_write_bytecode)"
    ),
    "nothing of ours": "import sys\nprint([m for m in sys.modules if 'assay' in m])",
    "a warning": "import warnings\nwarnings.warn('w')",
    "its files": "import helper, pkg.mod\nfrom pkg import mod\nprint(helper.x, mod.y)",
    "a module it writes": (
        "import importlib\nopen('w.py', 'w').write('z = 5')\nimport w\nprint(w.z)\n"
        "open('w.py', 'w').write('z = 66')\nprint(importlib.reload(w).z)"
    ),
    "runpy": "import runpy\nopen('w.py', 'w').write('print(__name__)')\nrunpy.run_path('w.py')",
    "itself": "if __name__ == '__main__': import main\nprint(__name__)",
    "a child": (
        "import subprocess, sys\nopen('x.py', 'w').write('import helper; exit(helper.x)')\n"
        "print(subprocess.run([sys.executable, 'x.py']).returncode)"
    ),
    "asyncio": "import asyncio\nasync def f(): return 5\nprint(asyncio.run(f()))",
}
_NUMPY = {
    "behind a name": "import math, numpy as np\nprint(np.arange(3))",
    "behind a semicolon": "import sys; import numpy\nprint(numpy.arange(3))",
    "under a condition": "if 1: import numpy\nprint(numpy.arange(3))",
    "by name": "print(__import__('nu' + 'mpy').arange(3))",
    "in a child": (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import numpy; print(numpy.arange(3))'])"
    ),
}
_MULTIPROCESSING = """
import multiprocessing
def f(x): return x * x
if __name__ == "__main__":
    with multiprocessing.get_context("{}").Pool(2) as pool:
        print(pool.map(f, [1, 2, 3]))
"""

Ended = tuple[int | None, str, str]


@cache
def _interpreter(host: Host, folder: Path) -> Path:
    own = folder / host.python.replace("/", "-")
    own.mkdir()
    packages = find_packages(SandboxSettings())
    return make_interpreter(own, host, packages, has_namespaces=False) / "bin" / "python"


@pytest.fixture(scope="module")
def plain_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plain")


def run_plainly(code: str, python: Path, folder: Path) -> Ended:
    folder.mkdir()
    for name, content in {**FILES, "main.py": code.encode()}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "stdin").write_text(STDIN, newline="")
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
    with (folder / "stdin").open() as stdin:
        ended = subprocess.run(
            [python, "-X", "utf8", "main.py"],
            cwd=folder,
            env=environment,
            stdin=stdin,
            capture_output=True,
            timeout=60,
            check=False,
        )
    stdout, stderr = (text.decode(errors="replace") for text in (ended.stdout, ended.stderr))
    return ended.returncode, stdout, _without_places(stderr)


def _without_places(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"/\S*/(\w+\.py)", r"\1", text))


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.slow
@pytest.mark.promise("verdicts equal plain Python's")
async def test_a_program_ends_as_it_does_plainly(
    sandbox: LocalSandbox, plain_folder: Path, code: str, tmp_path: Path
) -> None:
    python = await asyncio.to_thread(_interpreter, sandbox.host, plain_folder)
    expected = await asyncio.to_thread(run_plainly, code, python, tmp_path / "work")
    result = await sandbox.execute(ExecutionRequest(code=code, files=FILES, stdin=STDIN))
    assert (result.exit_code, result.stdout, _without_places(result.stderr)) == expected
    assert (result.status is Status.ACCEPTED) == (expected[0] == 0), result.message


@pytest.mark.parametrize("profile", ["auto", "std"])
@pytest.mark.parametrize("code", _NUMPY.values(), ids=_NUMPY)
async def test_a_package_is_found_in_every_form(
    sandbox: LocalSandbox, code: str, profile: str
) -> None:
    pytest.importorskip("numpy")
    request = ExecutionRequest.model_validate({"code": code, "profile": profile})
    result = await sandbox.execute(request)
    assert (result.status, result.stdout) == (Status.ACCEPTED, "[0 1 2]\n"), result


@pytest.fixture
def packages_below_tmp() -> Iterator[Path]:
    """Return a folder of packages in a place with a separate folder in slots."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        package = folder / "numpy"
        package.mkdir()
        (package / "__init__.py").write_text("begun = 1\n")
        (package / "late.py").write_text("def value():\n    return 7\n")
        yield folder


@pytest.mark.parametrize("profile", ["scientific", "std"])
@pytest.mark.parametrize("isolation", ["pooled", "fresh"])
async def test_packages_below_a_folder_that_slots_have_their_own_of_are_found(
    make_sandbox: MakeSandbox, packages_below_tmp: Path, isolation: str, profile: str
) -> None:
    sandbox = await make_sandbox(sandbox_isolation=isolation, sandbox_packages=packages_below_tmp)
    code = "import os, numpy.late\nprint(numpy.begun, numpy.late.value(), os.listdir('/tmp'))"
    request = ExecutionRequest.model_validate({"code": code, "profile": profile})
    result = await sandbox.execute(request)
    assert (result.status, result.stdout) == (Status.ACCEPTED, "1 7 []\n"), result


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
async def test_processes_start_in_every_way(sandbox: LocalSandbox, method: str) -> None:
    if sandbox.isolation == "fallback":
        pytest.skip("fallback has no /dev/shm for semaphores")
    result = await sandbox.execute(ExecutionRequest(code=_MULTIPROCESSING.format(method)))
    assert (result.status, result.stdout) == (Status.ACCEPTED, "[1, 4, 9]\n"), result


async def test_a_file_that_is_never_closed_is_fetched_whole(sandbox: LocalSandbox) -> None:
    code = "f = open('o.txt', 'w')\nf.write('hello')"
    result = await sandbox.execute(ExecutionRequest(code=code, fetch_files=("o.txt",)))
    assert result.files == {"o.txt": b"hello"}


async def test_each_run_has_random_numbers_of_its_own(sandbox: LocalSandbox) -> None:
    request = ExecutionRequest(code="import random; print(random.random())")
    first, second = [await sandbox.execute(request) for _ in range(2)]
    assert first.stdout != second.stdout


async def test_a_program_that_exits_has_no_functions_to_call(sandbox: LocalSandbox) -> None:
    case = CallCase(function="f", args=[], expected=1)
    report = await sandbox.test(TestRequest(code="def f(): return 1\nexit()", cases=(case,)))
    assert report.status is Status.RUNTIME_ERROR
    assert "SystemExit" in report.cases[0].message


async def test_cells_find_files_and_packages_and_may_exit(sandbox: LocalSandbox) -> None:
    session = (await sandbox.sessions.create(SessionRequest(files=FILES), ME)).id
    cells = (
        ("import helper; helper.x", "7"),
        ("exit()", None),
        ("open('w.py', 'w').write('z = 5')\nimport w; w.z", "5"),
        ("__builtins__.__name__", "'builtins'"),
    )
    for code, expected in cells:
        result = await sandbox.sessions.execute(session, ME, code)
        assert (result.status, result.result) == (Status.ACCEPTED, expected), result
    await sandbox.sessions.end(session, ME)


async def test_signals_are_handled_whatever_the_service_ignores(
    make_sandbox: MakeSandbox,
) -> None:
    ignored = (signal.SIGHUP, signal.SIGQUIT)
    before = [signal.signal(number, signal.SIG_IGN) for number in ignored]
    try:
        sandbox = await make_sandbox()
    finally:
        for number, handler in zip(ignored, before, strict=True):
            signal.signal(number, handler)
    for number in ignored:
        code = f"import os\nos.kill(os.getpid(), {int(number)})\nprint('alive')"
        result = await sandbox.execute(ExecutionRequest(code=code))
        assert (result.stdout, result.exit_code) == ("", -number)
    code = "trap 'echo hup' HUP; kill -HUP $$; echo end"
    result = await sandbox.execute(ExecutionRequest(language="bash", code=code))
    assert result.stdout == "hup\nend\n"
