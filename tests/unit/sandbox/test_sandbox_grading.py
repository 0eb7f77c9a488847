"""Test code in a grader's slot: the verdict is plain Python's, or there is none."""

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from assay_sandbox.sandbox import LocalSandbox
from assay_shared.types import (
    AssertCase,
    CallCase,
    Grading,
    Limits,
    Status,
    TestReport,
    TestRequest,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
LIMITS = Limits(cpu_time_s=4.0, wall_time_s=15.0)

#: A program, and test code that plain Python runs to its end. Judged outside.
RIGHT = {
    "numpy scalar": ("import numpy as np\ndef f(x): return np.mean(x)", "assert f([1, 3]) == 2.0"),
    "numpy array": (
        "import numpy as np\ndef f(x): return np.array(x) * 2",
        "import numpy as np\nassert (f([1, 2]) == [2, 4]).all()\n"
        "assert np.array_equal(f([1, 2]), np.array([2, 4]))\nassert f([1]).dtype.kind == 'i'",
    ),
    "numpy argument": (
        "import numpy as np\ndef f(a): a[0] = 9\n",
        "import numpy as np\na = np.zeros(3)\nf(a)\nassert a.tolist() == [9, 0, 0]",
    ),
    "Counter": (
        "from collections import Counter\ndef f(x): return Counter(x)",
        "assert f('aab') == {'a': 2, 'b': 1}\nassert f('aab').most_common(1) == [('a', 2)]\n"
        "assert f('a')['z'] == 0",
    ),
    "defaultdict": (
        "from collections import defaultdict\ndef f():\n d = defaultdict(list)\n d[1].append(2)\n"
        " return d",
        "d = f()\nassert d == {1: [2]}\nassert d[5] == []",
    ),
    "OrderedDict": (
        "from collections import OrderedDict\ndef f(): return OrderedDict(a=1, b=2)",
        "from collections import OrderedDict\nassert f() == {'b': 2, 'a': 1}\n"
        "assert f() != OrderedDict(b=2, a=1)",
    ),
    "deque": (
        "from collections import deque\ndef f(): return deque([1, 2], maxlen=2)",
        "from collections import deque\nassert f() == deque([1, 2])\nassert f() != [1, 2]",
    ),
    "named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)",
        "assert f() == (1, 2)\nassert f().x == 1 and f()._asdict() == {'x': 1, 'y': 2}",
    ),
    "a set's order": (
        "def f(s): return tuple(s)\ndef g(): return {30, 1, 17, 9, 5, 25, 10**9}",
        "for s in ({1, 2, 3, 33, 20, 10, 15}, {'ab', 'c', 'd', 'q'}, set(range(0, 999, 7))):\n"
        "    assert f(s) == tuple(s)\n    assert f(frozenset(s)) == tuple(frozenset(s))\n"
        "assert list(g()) == list({30, 1, 17, 9, 5, 25, 10**9})",
    ),
    "a list that the program holds": (
        "S = None\ndef make():\n global S\n S = []\n return S\ndef size(): return len(S)\n"
        "def get(): return S\ndef add(): S.append([])",
        "q = make()\nq.append(1)\nassert size() == 1 and get() is q\nq.append(q)\n"
        "assert get()[1] is q\nadd()\nassert len(q) == 3\nq[2].append(4)\n"
        "assert get()[2] == [4]\nq.clear()\nassert size() == 0",
    ),
    "an argument that the program holds": (
        "K = []\ndef keep(x): K.append(x)\ndef add(): K[0].append(5)\n"
        "def total(): return sum(map(len, K))",
        "a = [1]\nkeep(a)\nadd()\nassert a == [1, 5]\na.append(2)\nassert total() == 3\n"
        "b = {1: [2]}\nkeep(b)\nb[2] = 0\nassert total() == 5",
    ),
    "an attribute that is a list": (
        "class A:\n def __init__(s): s.items = []\n def n(s): return len(s.items)",
        "a = A()\na.items.append(1)\nassert a.n() == 1 and a.items is a.items",
    ),
    "a list, and a function of the test that changes it": (
        "def f(x, call):\n call(x)\n return x",
        "x = []\nassert f(x, lambda one: one.append(1)) is x\nassert x == [1]",
    ),
    "a list that is changed by what raises": (
        "def f(x):\n x.append(1)\n raise ValueError",
        "x = []\ntry: f(x)\nexcept ValueError: pass\nassert x == [1]",
    ),
    "bytes": ("def f(): return b'a\\xff'", "assert f() == b'a\\xff'\nassert f() != 'a'"),
    "bytearray": ("def f(): return bytearray(b'a')", "assert f() == b'a'"),
    "complex": ("def f(): return 1 + 2j", "assert f() == 1 + 2j and abs(f() - (1 + 2j)) == 0"),
    "Fraction": (
        "from fractions import Fraction\ndef f(): return Fraction(1, 3)",
        "from fractions import Fraction\nassert f() == Fraction(2, 6) and f() * 3 == 1",
    ),
    "Decimal": (
        "from decimal import Decimal\ndef f(): return Decimal('0.10')",
        "from decimal import Decimal\nassert f() == Decimal('0.1')\nassert str(f()) == '0.10'",
    ),
    "datetime": (
        "import datetime\ndef f(): return datetime.datetime(2024, 2, 29, 1)",
        "from datetime import timedelta\n"
        "assert f() - datetime.datetime(2024, 2, 28, 1) == timedelta(days=1)",
    ),
    "IntEnum": (
        "from enum import IntEnum\nclass C(IntEnum):\n RED = 1\ndef f(): return C.RED",
        "assert f() == 1 and f() == C.RED\nassert f().name == 'RED'",
    ),
    "str subclass": ("class S(str): pass\ndef f(): return S('a')", "assert f() == 'a'"),
    "list of a generator": ("def f():\n yield 1\n yield 2", "assert list(f()) == [1, 2]"),
    "next of a generator": (
        "def f():\n yield 1\n yield 2",
        "g = f()\nassert next(g) == 1\nassert next(g) == 2\nassert next(g, None) is None",
    ),
    "in a generator": ("def f(): yield from (1, 2)", "assert 2 in f()\nassert 3 not in f()"),
    "a generator is not a list": ("def f(): yield 1", "assert f() != [1]"),
    "sorted keys": ("def f(): return {2: 0, 1: 0}.keys()", "assert sorted(f()) == [1, 2]"),
    "dict views": (
        "def f(d): return d.items()",
        "assert f({1: 2}) == {(1, 2)}\nassert list(f({1: 2})) == [(1, 2)]",
    ),
    "len of a range": ("def f(n): return range(n)", "assert len(f(3)) == 3 and f(3) == range(3)"),
    "map": ("def f(x): return map(str, x)", "assert list(f([1])) == ['1']"),
    "all of a generator": (
        "def f(i): return i * i",
        "assert all(f(i) == i * i for i in range(5))\nassert sum(f(i) for i in range(3)) == 5",
    ),
    "or": ("def f(x): return [1]", "assert f(5) is None or f(5)[0] == 1"),
    "loop": ("def f(x): return x + 1", "for i in range(9):\n    assert f(i) == i + 1"),
    "helper of the test": (
        "def f(x): return [x]",
        "def same(a, b):\n    return a == [b]\nassert same(f(1), 1)",
    ),
    "check": (
        "def f(x): return x",
        "METADATA = {'a': 1}\ndef check(candidate):\n    assert candidate(1) == 1\ncheck(f)",
    ),
    "isclose": ("def f(x): return x / 3", "import math\nassert math.isclose(f(1), 0.333333333333)"),
    "in place": ("def f(a): a.sort()", "a = [3, 1]\nassert f(a) is None\nassert a == [1, 3]"),
    "nested in place": (
        "def f(m):\n for row in m: row.reverse()\n m.append(m[0])",
        "m = [[1, 2], [3]]\nrow = m[0]\nf(m)\nassert row == [2, 1]\n"
        "assert m[2] is m[0]\nassert m == [[2, 1], [3], [2, 1]]",
    ),
    "the argument itself": ("def f(a): return a", "a = []\nassert f(a) is a"),
    "a copy of the argument": ("def f(a): return a[:]", "a = [1]\nassert f(a) is not a"),
    "aliased rows": (
        "def f(m):\n m[0][0] = 5\n return m",
        "assert f([[0]] * 2) == [[5], [5]]\nassert f([[0], [0]]) == [[5], [0]]",
    ),
    "a class": (
        "class Stack:\n def __init__(self): self.a = []\n def push(self, x): self.a.append(x)\n"
        " def pop(self): return self.a.pop()\n def __len__(self): return len(self.a)",
        "s = Stack()\ns.push(1)\ns.push(2)\nassert len(s) == 2\nassert s.pop() == 2\n"
        "assert s.a == [1]",
    ),
    "leetcode": (
        "class Solution:\n def twoSum(self, a, t):\n  return [0, 1]",
        "assert Solution().twoSum([2, 7], 9) == [0, 1]",
    ),
    "closure": ("def add(a): return lambda b: a + b", "assert add(3)(4) == 7"),
    "callback": (
        "def apply(f, xs): return [f(x) for x in xs]",
        "seen = []\ndef note(x):\n    seen.append(x)\n    return x * 2\n"
        "assert apply(note, [1, 2]) == [2, 4]\nassert seen == [1, 2]\n"
        "assert apply(len, ['a']) == [1]\nassert apply(lambda x: -x, [1]) == [-1]",
    ),
    "callback that raises": (
        "def f(g):\n try: g()\n except KeyError: return 'caught'",
        "def g(): raise KeyError(1)\nassert f(g) == 'caught'",
    ),
    "exception": (
        "def f(x): raise ValueError('no', x)",
        "try:\n    f(1)\n    assert False\nexcept ValueError as error:\n"
        "    assert error.args == ('no', 1)",
    ),
    "own exception": (
        "class Base(Exception): pass\nclass Bad(Base):\n def __init__(self, x):\n"
        "  super().__init__('bad %d' % x)\n  self.x = x\ndef f(x): raise Bad(x)",
        "for kind in (Bad, Base, Exception):\n    try:\n        f(1)\n        assert False\n"
        "    except kind as error:\n        assert str(error) == 'bad 1' and error.x == 1",
    ),
    "exit": (
        "import sys\ndef f(): sys.exit(3)",
        "try:\n    f()\nexcept SystemExit as error:\n    assert error.code == 3",
    ),
    "nan": (
        "def f(): return float('nan')",
        "import math\nassert math.isnan(f())\nassert f() != f()",
    ),
    "huge": ("def f(): return 10 ** 10000", "assert f() == 10 ** 10000"),
    "surrogates": ("def f(): return '\\ud800'", "assert f() == '\\ud800'"),
    "builtin's name": ("def sum(a, b): return a - b", "assert sum(3, 1) == 2"),
    "attribute": (
        "class A:\n def __init__(self): self.x = 1\ndef f(): return A()",
        "a = f()\na.x = 5\nassert a.x == 5\nassert hasattr(a, 'x') and not hasattr(a, 'y')",
    ),
    "linked list": (
        "class N:\n def __init__(self, v, n=None): self.v, self.n = v, n\n"
        "def f(items):\n node = None\n for i in reversed(items): node = N(i, node)\n return node",
        "n = f([1, 2])\nassert n.v == 1 and n.n.v == 2 and n.n.n is None",
    ),
    "isinstance": (
        "class A: pass\ndef f(): return A()\ndef g(): return 1",
        "assert isinstance(f(), A)\nassert not isinstance(g(), A)\nassert isinstance(g(), int)",
    ),
    "text of an object": (
        "class A:\n def __repr__(self): return 'A!'\ndef f(): return A()",
        "assert repr(f()) == 'A!' and f'{f()}' == 'A!'",
    ),
    "global that changes": (
        "count = 0\ndef f():\n global count\n count += 1",
        "assert count == 0\nf()\nassert count == 1",
    ),
    "returned type": ("def f(x): return type(x)", "assert f(1) is int and f('') == str"),
    "iterator argument": ("def f(xs): return list(xs)", "assert f(iter([1])) == [1]"),
    "cycle": ("def f(x):\n x.append(x)\n return x", "x = f([])\nassert x[0] is x"),
    "function without result": ("def f(): pass", "assert f() is None"),
}  # fmt: skip

#: A program, and test code that fails in plain Python.
WRONG = {
    "value": ("def f(): return 1", "assert f() == 2", Status.WRONG_ANSWER),
    "bool of a list": ("def f(): return []", "assert f()", Status.WRONG_ANSWER),
    "type": ("def f(): return (1,)", "assert f() == [1]", Status.WRONG_ANSWER),
    "deque": (
        "from collections import deque\ndef f(): return deque([1])",
        "assert f() == [1]",
        Status.WRONG_ANSWER,
    ),
    "generator": ("def f(): yield 1", "assert f() == [1]", Status.WRONG_ANSWER),
    "function": ("def f(): return f", "assert f() == 1", Status.WRONG_ANSWER),
    "in place": ("def f(a): pass", "a = [2, 1]\nf(a)\nassert a == [1, 2]", Status.WRONG_ANSWER),
    "no exception": (
        "def f(): pass",
        "try:\n    f()\n    assert False\nexcept ValueError:\n    pass",
        Status.WRONG_ANSWER,
    ),
    "other exception": (
        "def f(): raise TypeError",
        "try:\n    f()\nexcept ValueError:\n    pass",
        Status.RUNTIME_ERROR,
    ),
    "exit": ("def f(): raise SystemExit(0)", "f()", Status.RUNTIME_ERROR),
    "no function": ("def g(): pass", "assert f() == 1", Status.RUNTIME_ERROR),
    "builtin's name": ("def sum(x): return 'no'", "assert sum([1, 2]) == 3", Status.WRONG_ANSWER),
    "test code": ("def f(): pass", "assert (", Status.RUNTIME_ERROR),
    "copy": ("def f(a): return a", "a = [1]\nassert f(a) is not a", Status.WRONG_ANSWER),
    "out of memory": ("def f(): return bytearray(10 ** 12)", "assert f()", Status.MEMORY_LIMIT),
}  # fmt: skip

#: What only the program's own process can decide.
INSIDE = {
    "printed": (
        "def f(): print('hi')",
        "import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n"
        "    f()\nassert out.getvalue() == 'hi\\n'",
    ),
    "patched": (
        "def f(): return input()",
        "import builtins\nbuiltins.input = lambda: 'x'\nassert f() == 'x'",
    ),
    "own equality": (
        "class P:\n def __init__(self, x): self.x = x\n def __eq__(self, o): return self.x == o.x\n"
        "def f(): return P(1)",
        "assert f() == P(1)",
    ),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n x: int\ndef f(): return P(1)",
        "assert f() == P(1)",
    ),
    "the test's class": (
        "def f(n): return n.v",
        "class N:\n    def __init__(self, v): self.v = v\nassert f(N(3)) == 3",
    ),
    "subclass": ("class A:\n def f(self): return 1", "class B(A): pass\nassert B().f() == 1"),
    "random": (
        "import random\ndef f(): return random.random()",
        "import random\nrandom.seed(1)\na = f()\nrandom.seed(1)\nassert f() == a",
    ),
    "arithmetic": (
        "class V:\n def __init__(self, x): self.x = x\n"
        " def __add__(self, o): return V(self.x + o.x)",
        "assert (V(1) + V(2)).x == 3",
    ),
    "nothing": ("def f(): pass", "assert True"),
}  # fmt: skip


async def judge(sandbox: LocalSandbox, code: str, *tests: str, **rest: object) -> TestReport:
    cases = tuple(AssertCase(code=test) for test in tests)
    return await sandbox.test(
        TestRequest.model_validate({"code": code, "cases": cases, "limits": LIMITS} | rest)
    )


@pytest.mark.parametrize("name", RIGHT)
async def test_what_holds_in_plain_python_is_accepted_outside(
    sandbox: LocalSandbox, name: str
) -> None:
    code, test = RIGHT[name]
    exec(compile(code + "\n" + test, name, "exec"), {"__name__": "__main__"})
    report = await judge(sandbox, code, test, hackable=False)
    assert report.status is Status.ACCEPTED, report
    assert report.grading is Grading.OUTSIDE


@pytest.mark.parametrize("name", WRONG)
async def test_what_fails_in_plain_python_fails(sandbox: LocalSandbox, name: str) -> None:
    code, test, status = WRONG[name]
    report = await judge(sandbox, code, test)
    assert (report.status, report.grading) == (status, Grading.OUTSIDE), report


@pytest.mark.parametrize("name", INSIDE)
async def test_what_cannot_be_graded_outside_is_marked_or_ungradable(
    sandbox: LocalSandbox, name: str
) -> None:
    code, test = INSIDE[name]
    report = await judge(sandbox, code, test)
    assert (report.status, report.grading) == (Status.ACCEPTED, Grading.IN_PROCESS), report
    report = await judge(sandbox, code, test, hackable=False)
    assert (report.status, report.grading) == (Status.UNGRADABLE, Grading.OUTSIDE), report
    assert report.cases[0].message


async def test_a_case_goes_inside_alone(sandbox: LocalSandbox) -> None:
    code = "def f(x): return x\nclass E:\n __eq__ = lambda *a: True\ndef g(): return E()"
    tests = (
        "assert f(1) == 1",
        "assert f(2) == 2 and g() == E()",
        "assert f(3) == 4",
        "assert f(4) == 4",
    )
    report = await judge(sandbox, code, *tests)
    assert [case.status for case in report.cases] == [
        Status.ACCEPTED,
        Status.ACCEPTED,
        Status.WRONG_ANSWER,
        Status.ACCEPTED,
    ]
    assert report.grading is Grading.IN_PROCESS


@pytest.mark.parametrize(
    ("code", "expected", "status"),
    [
        ("def f(): return (1, [2])", [1, [2]], Status.ACCEPTED),
        ("def f(): return True", 1, Status.WRONG_ANSWER),
        ("def f(): return 1.0", 1, Status.ACCEPTED),
        ("def f(): return {'a': None}", {"a": None}, Status.ACCEPTED),
        ("import numpy\ndef f(): return numpy.array([1, 2])", [1, 2], Status.ACCEPTED),
        ("import numpy\ndef f(): return numpy.float64(0.5)", 0.5, Status.ACCEPTED),
        ("import collections\ndef f(): return collections.Counter('a')", {"a": 1}, Status.ACCEPTED),
        ("def f(): yield 1", [1], Status.WRONG_ANSWER),
        ("def f(): return f", 1, Status.WRONG_ANSWER),
        ("class A:\n __eq__ = lambda *a: True\ndef f(): return A()", 1, Status.UNGRADABLE),
        ("def g(): pass", 1, Status.RUNTIME_ERROR),
        ("def f(): raise KeyError(1)", 1, Status.RUNTIME_ERROR),
        ("import os\ndef f(): os._exit(0)", None, Status.RUNTIME_ERROR),
    ],
)
async def test_what_a_call_returns_is_compared_with_json(
    sandbox: LocalSandbox, code: str, expected: object, status: Status
) -> None:
    case = CallCase.model_validate({"function": "f", "args": (), "expected": expected})
    report = await sandbox.test(TestRequest(code=code, cases=(case,), limits=LIMITS))
    assert (report.status, report.grading) == (status, Grading.OUTSIDE), report


#: Where the program could choose to be graded in its process: never, whatever is allowed.
REFUSED = {
    "truth": ("class A: pass\ndef f(): return A()", "assert f()"),
    "always equal": (
        "class A:\n __eq__ = lambda *a: True\n __hash__ = lambda s: 1\ndef f(): return A()",
        "assert f() == 1",
    ),
    "in a set": ("class A: pass\ndef f(): return A()", "assert {f()} == {1}"),
    "isinstance": ("class A: pass\ndef f(): return A()", "assert isinstance(f(), int)"),
    "difference": ("class A:\n __sub__ = lambda *a: 0\ndef f(): return A()", "assert f() - 1 == 0"),
    "a global of the test's": ("def f(): return limit", "limit = 5\nassert f() == 5"),
    "own builtins": ("def abs(x): return 0\ndef f(): return 1", "assert abs(f() - 5) == 0"),
    "own isclose": ("def isclose(*a): return True\ndef f(): return 1", "assert isclose(f(), 5)"),
    "own module": (
        "class math:\n isclose = lambda *a: True\ndef f(): return 1",
        "assert math.isclose(f(), 5)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_a_program_does_not_choose_where_it_is_graded(
    sandbox: LocalSandbox, name: str
) -> None:
    report = await judge(sandbox, *REFUSED[name])
    assert (report.status, report.grading) == (Status.UNGRADABLE, Grading.OUTSIDE), report


#: Values that are dear to compare, and test code that would be.
DEAR = {
    "colliding set": ("M = 2**61 - 1\ndef f(): return [i * M for i in range(60000)]", "set(f())"),
    "long format": ("def f(): return '%900000000d'", "assert f() % 2 == 0"),
    "long text": ("def f(): return 'a' * 10 ** 7", "assert f() * 1000 == 0"),
    "long list of the test's": ("def f(): return 1", "assert f() == [0] * 900000000"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEAR)
@pytest.mark.slow
async def test_what_is_too_dear_to_compare_is_ungradable(sandbox: LocalSandbox, name: str) -> None:
    code, test = DEAR[name]
    limits = Limits(cpu_time_s=2.0, wall_time_s=25.0)
    report = await judge(sandbox, code, test, hackable=False, limits=limits)
    assert report.status is Status.UNGRADABLE, report
    assert (await judge(sandbox, "def f(): return 1", "assert f() == 1")).status is Status.ACCEPTED


@pytest.mark.slow
async def test_each_case_has_its_own_wall_time_and_a_program_cannot_restart_it(
    sandbox: LocalSandbox,
) -> None:
    code = (
        "import os, time\ndef f(t):\n until = time.monotonic() + t\n"
        " while time.monotonic() < until:\n  time.sleep(0.1)\n"
        "  for fd in range(3, 20):\n   try: os.write(fd, b'start 0\\n')\n"
        "   except OSError: pass\n return t\n"
    )
    limits = Limits(cpu_time_s=2.0, wall_time_s=2.0)
    slow = "import time\ndef f(t):\n time.sleep(t)\n return t"
    tests = ("assert f(1.2) == 1.2", "assert f(1.1) == 1.1")
    report = await judge(sandbox, slow, *tests, limits=limits)
    assert report.status is Status.ACCEPTED, report
    report = await judge(sandbox, code, "assert f(8) == 8", limits=limits)
    assert report.status is not Status.ACCEPTED
    assert report.cases[0].wall_time_s < 6


def _rows(name: str) -> list[dict[str, object]]:
    path = Path(os.environ["ASSAY_DATA"]) / name
    lines = gzip.decompress(path.read_bytes()).split(b"\n")
    return [json.loads(line) for line in lines if line]


@pytest.mark.skipif("ASSAY_DATA" not in os.environ, reason="needs real data: set ASSAY_DATA")
async def test_humaneval_is_graded_outside(sandbox: LocalSandbox) -> None:
    gradings: Counter[Grading] = Counter()
    for row in _rows("HumanEval.jsonl.gz")[::4]:
        code = f"{row['prompt']}{row['canonical_solution']}"
        report = await judge(sandbox, code, f"{row['test']}\ncheck({row['entry_point']})")
        assert report.status is Status.ACCEPTED, (row["task_id"], report)
        gradings[report.grading] += 1
    assert gradings == {Grading.OUTSIDE: 41}


@pytest.mark.skipif("ASSAY_DATA" not in os.environ, reason="needs real data: set ASSAY_DATA")
@pytest.mark.slow
async def test_real_bugs_are_never_accepted(sandbox: LocalSandbox) -> None:
    for row in _rows("buggy_code/humanevalpack_python_164.jsonl.gz")[::8]:
        code = f"{row['declaration']}{row['buggy_solution']}"
        report = await judge(sandbox, code, str(row["test"]))
        assert report.status is not Status.ACCEPTED, (row["task_id"], report)
