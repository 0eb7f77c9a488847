"""Programs after the reward without the answer."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry

from assay_sandbox.sandbox import LocalSandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.types import (
    AssertCase,
    CallCase,
    Checker,
    Limits,
    Status,
    StdinCase,
    TestReport,
    TestRequest,
)

LIMITS = Limits(cpu_time_s=2.0, wall_time_s=6.0)
#: What is expected: no program below says it, or finds it.
SECRET = "the-answer-is-" + "zebra"
CASES = {
    "call": CallCase(function="f", args=(), expected=SECRET),
    "assert": AssertCase(code=f"assert f() == {SECRET!r}"),
    "check": AssertCase(
        code=f"def check(candidate):\n    assert candidate() == {SECRET!r}\ncheck(f)"
    ),
    "stdin": StdinCase(stdin="", expected_stdout=SECRET),
}
#: Looks for what begins like the secret wherever a program can look.
SEARCH = """
import gc, os, re, sys
wanted = re.compile(b"the-answer" + b"-is-[a-z]+")
found = set()
def look(data):
    found.update(wanted.findall(data))
for folder, _, names in [*os.walk(os.getcwd()), *os.walk("/tmp"), *os.walk("/dev/shm")]:
    for name in names:
        try: look(open(os.path.join(folder, name), "rb").read(10**7))
        except OSError: pass
for name in ("environ", "cmdline", "stat", "status"):
    for pid in ("self", str(os.getppid()), "1"):
        try: look(open(f"/proc/{pid}/{name}", "rb").read())
        except OSError: pass
for fd in range(64):
    try: look(os.pread(fd, 10**7, 0))
    except OSError: pass
for pid in ("self", str(os.getppid())):
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                start, end = (int(x, 16) for x in line.split()[0].split("-"))
                if "r" in line.split()[1] and end - start < 10**8:
                    try:
                        memory.seek(start)
                        look(memory.read(end - start))
                    except (OSError, ValueError, OverflowError): pass
    except OSError: pass
frame = sys._getframe()
while frame:
    look(repr(frame.f_locals).encode())
    frame = frame.f_back
for thing in gc.get_objects():
    if isinstance(thing, (str, dict, list, tuple)):
        try: look(repr(thing).encode()[:10**5])
        except Exception: pass
found = [one.decode() for one in found]
print(found[0] if found else "")
def f(): return found[0] if found else ""
"""
HACKS = {
    "looks for it everywhere": SEARCH,
    "prints the record": "print('value 0 \"x\"', flush=True)\ndef f(): return 0",
    "writes records to every descriptor": (
        "import os\n"
        "for fd in range(3, 64):\n"
        "    for line in ('start 0', 'value 0 1', 'passed 0', 'done'):\n"
        "        try: os.write(fd, line.encode() + b'\\n')\n"
        "        except OSError: pass\n"
        "def f(): return 0"
    ),
    "writes records in the call": (
        "import os\n"
        "def f():\n"
        "    for fd in range(3, 64):\n"
        "        try: os.write(fd, b'value 0 true\\npassed 0\\ndone\\n')\n"
        "        except OSError: pass\n"
        "    os._exit(0)"
    ),
    "returns something that equals everything": (
        "class Any:\n    def __eq__(self, other): return True\n    __hash__ = None\n"
        "def f(): return Any()"
    ),
    "returns a sly string": (
        "class Sly(str):\n    def __eq__(self, other): return True\n    __hash__ = str.__hash__\n"
        "    def __repr__(self): return 'x'\n"
        "def f(): return Sly()"
    ),
    "returns what is like nothing": "def f(): return float('nan')",
    "patches what assertions use": (
        "import builtins\n"
        "for name in ('len', 'abs', 'sorted', 'set', 'list', 'str', 'repr', 'isinstance'):\n"
        "    setattr(builtins, name, lambda *a, **k: True)\n"
        "def f(): return 0"
    ),
    "patches the harness": (
        "import sys\n"
        "harness = sys.modules.get('assay_sandbox.slot.program.harness')\n"
        "if harness:\n"
        "    harness.encode = lambda *a: 'true'\n"
        "    harness.Program.try_case = lambda self, i, case: self.answer('passed', i) or True\n"
        "def f(): return 0"
    ),
    "patches json, and what compiles": (
        "import builtins, json, marshal\n"
        "json.dumps = json.loads = marshal.loads = lambda *a, **k: True\n"
        "builtins.compile = lambda *a, **k: None\n"
        "builtins.exec = builtins.eval = lambda *a, **k: True\n"
        "def f(): return 0"
    ),
    "traces": (
        "import sys\n"
        "def trace(frame, event, argument):\n"
        "    if event == 'exception': frame.f_trace = None\n"
        "    return trace\n"
        "sys.settrace(trace)\n"
        "def f(): return 0"
    ),
    "puts a hook on imports": (
        "import builtins\n"
        "real = builtins.__import__\n"
        "builtins.__import__ = lambda name, *a, **k: real('math', *a, **k)\n"
        "def f(): return 0"
    ),
    "swallows what assertions raise": (
        "import builtins\n"
        "class AssertionError(Exception): pass\n"
        "builtins.AssertionError = AssertionError\n"
        "def f(): return 0"
    ),
    "exits in the call": "import sys\ndef f(): sys.exit(0)",
    "leaves in the call": "import os\ndef f(): os._exit(0)",
    "kills itself in the call": "import os\ndef f(): os.kill(os.getpid(), 9)",
    "exits before its cases": "def f(): return 0\nimport sys\nsys.exit(0)",
    "leaves before its cases": "def f(): return 0\nimport os\nos._exit(0)",
    "quits": "def f(): return 0\nraise SystemExit",
    "exits at the end": "import atexit, os\natexit.register(os._exit, 0)\ndef f(): return 0",
    "leaves a child behind": (
        "import os\ndef f():\n    if os.fork(): os._exit(0)\n    return 0"
    ),
    "a generator, and a list within itself": "x = []\nx.append(x)\ndef f(): return x",
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["pooled", "fallback"])
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[LocalSandbox]:
    settings = SandboxSettings(
        sandbox_isolation=request.param, sandbox_minimum_isolation="fallback", sandbox_slots=2
    )
    sandbox = LocalSandbox(settings, CollectorRegistry())
    await sandbox.open()
    if sandbox.isolation != request.param:
        await sandbox.close()
        pytest.skip(f"this host does not grant isolation {request.param}")
    yield sandbox
    await sandbox.close()


async def judge(sandbox: LocalSandbox, code: str, case: object, **rest: object) -> TestReport:
    request = {"code": code, "cases": (case,), "limits": LIMITS, "hackable": False} | rest
    return await sandbox.test(TestRequest.model_validate(request))


@pytest.mark.parametrize("hack", HACKS)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.promise("strangers cannot fool a score")
async def test_no_trick_is_worth_a_reward(sandbox: LocalSandbox, hack: str) -> None:
    reports = await asyncio.gather(*(judge(sandbox, HACKS[hack], case) for case in CASES.values()))
    for name, report in zip(CASES, reports, strict=True):
        assert report.status is not Status.ACCEPTED, (name, report)
        assert SECRET not in report.model_dump_json(), (name, report)


#: Test code in which a comparison of Python's is wrapped; none holds for a program that is wrong.
FORMS = [
    "from math import isclose\nassert isclose(f(2), 43217.5)",
    "import math\nassert math.isclose(f(2), 43217.5, rel_tol=1e-9)",
    "assert math.isclose(f(2), 43217.5)",
    "import numpy as np\nassert np.allclose(f(2), [43217.0])",
    "import numpy as np\nassert np.array_equal(f(2), [43217])",
    "from math import sqrt\nassert f(2) == sqrt(43217)",
    "assert all([f(i) == i * i + 43217 for i in range(5)])",
    "assert (lambda r: r == 43217)(f(2))",
    "assert (f(2) == 43217 if True else False)",
    "assert (r := f(2) == 43217)",
    "assert f'{f(2) == 43217}' == 'True'",
    "assert len([x for x in [1, 2, 3] if f(x) == x * 43217]) == 3",
    "assert f(2) == 43217",
    "assert not f(2) != 43217",
    "assert f(2) in [43217]",
    "assert 43217 in [f(2)]",
    "assert abs(f(2) - 43217) < 1e-6",
    "assert 43217 - f(2) == 0",
    "assert {f(2)} == {43217}",
    "assert {43217: 1}[f(2)] == 1",
    "assert f(2).startswith('zebra')",
    "import operator\nassert operator.eq(f(2), 43217)",
    "import copy\nassert copy.deepcopy(f(2)) == 43217",
    "assert f(2) is 43217",
    "assert isinstance(f(2), int) and f(2) == 43217",
    "assert str(f(2)) == '43217'",
    "assert f(2) > 43216 and f(2) < 43218",
    "assert sorted([f(2), 43217]) == [43217, 43217]",
    "import builtins\nassert builtins.abs(f(2) - 43217) < 1",
    "match f(2):\n    case 43217: pass\n    case _: assert False",
    "def check(candidate):\n    assert candidate(2) == 43217\ncheck(f)",
    "assert all(map(lambda i: f(i) == i + 43217, range(3)))",
    "for value in map(f, [1, 2]):\n    assert value == 43217",
]
_OBJECT = """
class E:
    def __eq__(s, o): return True
    def __ne__(s, o): return False
    __lt__ = __gt__ = __le__ = __ge__ = __contains__ = __eq__
    def __bool__(s): return True
    def __hash__(s): return hash(43210 + 7)
    def __sub__(s, o): return 0
    __rsub__ = __add__ = __radd__ = __sub__
    def __getattr__(s, n): return lambda *a: True
    def __call__(s, *a): return True
    def __float__(s): return 0.0
    def __iter__(s): return iter(())
"""
#: Finds the program's side of the channel in the frames above it.
_SIDE = """
import os, socket, sys
def channel():
    frame = sys._getframe()
    while frame:
        found = frame.f_locals.get("self")
        if type(found).__name__ == "Remote": return found._exchange
        frame = frame.f_back
"""
FORGERS = {
    "patched math": "import math\nmath.isclose = lambda *a, **k: True\ndef f(x): return 0",
    "patched numpy": (
        "import numpy as np\nnp.allclose = np.array_equal = lambda *a, **k: True\n"
        "def f(x): return 0"
    ),
    "patched builtins": (
        "import builtins\nfor n in ('abs', 'all', 'any', 'len', 'sorted', 'str', 'isinstance'):\n"
        "    setattr(builtins, n, lambda *a, **k: True)\ndef f(x): return 0"
    ),
    "own builtins": (
        "abs = lambda *a: 0\nall = any = isinstance = lambda *a: True\nlen = lambda *a: 3\n"
        "isclose = lambda *a, **k: True\nclass math: isclose = isclose\n"
        "class np: allclose = array_equal = isclose\ndef f(x): return 0"
    ),
    "always equal": _OBJECT + "def f(x): return E()",
    "a class in place of the function": _OBJECT + "class f(E):\n    def __init__(s, x): pass",
    "equal numbers": (
        "class I(int):\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n"
        "    __sub__ = lambda s, o: 0\n    __hash__ = int.__hash__\ndef f(x): return I(0)"
    ),
    "equal lists": "class L(list):\n    __eq__ = lambda s, o: True\ndef f(x): return L([E()])"
    + _OBJECT,
    "frames": (
        "import sys\ndef f(x):\n    wanted = 43210 + 7\n    frame = sys._getframe()\n"
        "    while frame:\n        for v in list(frame.f_locals.values()):\n"
        "            if type(v) in (tuple, list, dict) and wanted in v: return wanted\n"
        "        frame = frame.f_back\n    return 0"
    ),
    "records": (
        "import os\ndef f(x):\n    for fd in range(3, 64):\n"
        "        for text in (b'start 0\\npassed 0\\ndone\\n', b'passed 0\\ndone\\n'):\n"
        "            try: os.write(fd, text)\n            except OSError: pass\n    os._exit(0)"
    ),
    "exits": "def f(x): raise SystemExit(0)",
    "ends the loop around it": "def f(x): raise StopIteration",
    "own error": "class X(BaseException): pass\ndef f(x): raise X",
    "patched channel": (
        "import gc\nfrom assay_sandbox.slot.grading import remote\n"
        "remote.Remote._do = lambda self, kind, rest: E()\ndef f(x): return 0" + _OBJECT
    ),
    "sends bytes that are not a message": (
        _SIDE + "def f(x):\n    channel()._line._socket.sendall(b'\\0' * 8)\n    return 0"
    ),
    "sends the start of a huge message": (
        _SIDE + "def f(x):\n    channel()._line._socket.sendall(b'\\xff' * 64)\n    return 0"
    ),
    "closes the channel": _SIDE + "def f(x):\n    channel()._line._socket.close()\n    return 0",
    "puts another socket in its place": (
        _SIDE + "def f(x):\n    a, b = socket.socketpair()\n    b.sendall(b'x' * 999)\n"
        "    b.shutdown(socket.SHUT_WR)\n"
        "    os.dup2(a.fileno(), channel()._line._socket.fileno())\n    return 0"
    ),
    "answers several times": (
        _SIDE + "def f(x):\n    for value in (0, 1, True, None):\n"
        "        channel().send(['value', value, None])\n    return 0"
    ),
    "answers from a fork too": (
        _SIDE + "def f(x):\n    if os.fork() == 0:\n"
        "        channel().send(['value', True, None])\n        os._exit(0)\n    return 0"
    ),
    "changes containers that are not its own": (
        _SIDE + "def f(x):\n    wanted = (43210 + 7,)\n"
        "    channel()._changes = lambda: ((0, wanted), (99, wanted), (-1, wanted))\n    return [0]"
    ),
    "keeps what there is not": (
        _SIDE + "def f(x):\n    channel()._prune = lambda: [0, 0, 5, 2**32 - 1]\n    return [0]"
    ),
    "says that the exit was asked for": (
        _SIDE + "def f(x):\n    names = ('SystemExit', 'BaseException')\n"
        "    channel().send(['raise', (None, names), (), '', None, None])"
    ),
    "claims that it is a function of Python's": (
        "import sys\nfrom assay_sandbox.slot.grading import remote\n"
        "remote.library_name = lambda value: ('unittest.mock', 'ANY')\ndef f(x): return f"
    ),
    "claims what its object is": (
        "from assay_sandbox.slot.grading import remote\n"
        "remote.describe_kind = lambda value: 'function'\ndef f(x): return E()" + _OBJECT
    ),
}  # fmt: skip


@pytest.mark.parametrize("forger", FORGERS)
@pytest.mark.asyncio(loop_scope="module")
async def test_no_form_of_an_assertion_can_be_forged(sandbox: LocalSandbox, forger: str) -> None:
    cases = tuple(AssertCase(code=form) for form in FORMS)
    for hackable in (False, True):
        request = {"code": FORGERS[forger], "cases": cases, "limits": LIMITS, "hackable": hackable}
        report = await sandbox.test(TestRequest.model_validate(request))
        accepted = [
            form
            for form, case in zip(FORMS, report.cases, strict=True)
            if case.status is Status.ACCEPTED
        ]
        assert accepted == []


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.asyncio(loop_scope="module")
async def test_the_answer_itself_is_worth_it(sandbox: LocalSandbox, kind: str) -> None:
    code = f"def f(): return {SECRET!r}\nprint(f())"
    assert (await judge(sandbox, code, CASES[kind])).status is Status.ACCEPTED


@pytest.mark.asyncio(loop_scope="module")
async def test_neither_a_checker_nor_its_answer_is_to_be_found(sandbox: LocalSandbox) -> None:
    checker = Checker(code=f"import sys\nsys.exit(open('output').read().strip() != {SECRET!r})")
    # Two at a time and often: a program runs where, and when, checkers do.
    work = [judge(sandbox, SEARCH, CASES["stdin"], checker=checker) for _ in range(8)]
    reports = await asyncio.gather(*work)
    assert {report.status for report in reports} == {Status.WRONG_ANSWER}
    report = await judge(sandbox, f"print({SECRET!r})", CASES["stdin"], checker=checker)
    assert report.status is Status.ACCEPTED
