"""Test code and program share their global names and their exceptions, as in a single process."""

import pytest

from assay_sandbox.sandbox import LocalSandbox
from assay_shared.types import AssertCase, Grading, Status, StdinCase, TestRequest

pytestmark = pytest.mark.asyncio(loop_scope="module")
READS_X = "x = 5\ndef f(): return x"
CALLS_G = "def g(): return 1\ndef f(): return g()"
COUNTS = "n = 1\ndef f():\n    global n\n    n += 1"
OPENS = "def f(): open('/nope')"
CHAINS = (
    "def f():\n"
    "    try: 1 / 0\n"
    "    except ZeroDivisionError as error: raise ValueError('v') from error"
)
#: Program, test code, and whether plain Python says that the test passes.
ERRORS = "class Bank(Exception): pass\nclass Low(Bank): pass\ndef w(): raise Low('x')"
OTHER = (
    "class Bank(Exception): pass\n"
    "def w():\n    class Bank(Exception): pass\n    class Low(Bank): pass\n    raise Low('x')"
)
BOTH = "class E(KeyError, AttributeError): pass\ndef w(): raise E('x')"
IN_HANDLER = (
    "def f():\n    try: 1/0\n    except ZeroDivisionError as e: raise KeyError('k')\n"
    "def g(): raise KeyError('k') from None\n"
    "def h():\n    try: 1/0\n    except ZeroDivisionError as e: raise RuntimeError('k') from e"
)
CONTEXT = "try: f()\nexcept KeyError as e: assert "
LOOKS = (
    "import inspect\nSEEN = {}\ndef d(fn):\n    SEEN[fn.__name__] = fn\n    return fn\n"
    "def name(fn): return fn.__name__, fn.__qualname__, fn.__doc__, fn.__defaults__\n"
    "def signature(fn): return str(inspect.signature(fn))\n"
    "def curry(fn, *a):\n    if len(a) == fn.__code__.co_argcount: return fn(*a)\n"
    "    return lambda b: curry(fn, *a, b)\n"
    "def call(fn, *a, **k): return fn(*a, **k)"
)
FOO = "def foo(a, b=2, *c, d, e=[5], **g):\n    'doc'\n    return a, b, c, d, e, g\n"
ROWS = [
    (LOOKS, FOO + "assert d(foo) is foo and SEEN['foo'] is foo", True),
    (LOOKS, FOO + "assert d(foo) is not foo", False),
    (LOOKS, FOO + "assert name(foo) == ('foo', 'foo', 'doc', (2,))", True),
    (LOOKS, FOO + "assert signature(foo) == '(a, b=2, *c, d, e=[5], **g)'", True),
    (LOOKS, "def bar(a, /, b, *, c): pass\nassert signature(bar) == '(a, /, b, *, c)'", True),
    (LOOKS, FOO + "assert call(foo, 1, d=4) == (1, 2, (), 4, [5], {})", True),
    (LOOKS, FOO + "assert call(foo, 1, 9, 8, d=4, z=1) == (1, 9, (8,), 4, [5], {'z': 1})", True),
    (LOOKS, FOO + "try: call(foo, 1)\nexcept TypeError: pass\nelse: assert False", True),
    (LOOKS, "assert curry(lambda a, b, c: a + b + c)(1)(2)(3) == 6", True),
    (LOOKS, "assert curry(lambda a, b, c: a + b + c)(1)(2)(3) == 7", False),
    (LOOKS, "assert name(lambda: 0)[0] == '<lambda>'", True),
    (ERRORS, "try: w()\nexcept Bank: pass", True),
    (ERRORS, "try: w()\nexcept Bank: pass\nexcept Low: assert 0", True),
    (ERRORS, "try: w()\nexcept Exception as e: assert not isinstance(e, Bank)", False),
    (ERRORS, "assert issubclass(Low, Bank) and not issubclass(Bank, Low)", True),
    (ERRORS, "assert not issubclass(Low, Bank)", False),
    (ERRORS, "for kind in (Exception, Bank):\n    try: w()\n    except kind: pass", True),
    (OTHER, "Bank\ntry: w()\nexcept Bank: pass", False),
    (BOTH, "try: w()\nexcept AttributeError: pass", True),
    (BOTH, "try: w()\nexcept KeyError: pass", True),
    (BOTH, "try: w()\nexcept ValueError: pass", False),
    (IN_HANDLER, CONTEXT + "e.__context__ is None", False),
    (IN_HANDLER, CONTEXT + "isinstance(e.__context__, ZeroDivisionError)", True),
    (IN_HANDLER, "try: g()\nexcept KeyError as e: assert e.__suppress_context__", True),
    (IN_HANDLER, "try: g()\nexcept KeyError as e: assert e.__context__ is None", True),
    (IN_HANDLER, "try: h()\nexcept RuntimeError as e: assert e.__context__ is e.__cause__", True),
    (
        IN_HANDLER,
        "try: int('x')\nexcept ValueError:\n    try: g()\n"
        "    except KeyError as e: assert isinstance(e.__context__, ValueError)",
        True,
    ),
    (CALLS_G, "def g(): return f()\nf()", False),
    (
        f"{CALLS_G}\ndef h(): return 2",
        "def g(): return f()\ntry: f()\nexcept RecursionError: assert h() == 2",
        True,
    ),
    (
        f"{CALLS_G}\ndef h(): return 2",
        "def g(): return f()\ntry: f()\nexcept RecursionError: assert h() == 3",
        False,
    ),
    (READS_X, "x = 9\nassert f() == 9", True),
    (READS_X, "x = 9\nassert f() == 5", False),
    (READS_X, "del x\nassert f() == 5", False),
    (READS_X, "for x in (7, 8): assert f() == x", True),
    (CALLS_G, "g = lambda: 2\nassert f() == 2", True),
    (CALLS_G, "def g(): return 3\nassert f() == 3 and g() == 3", True),
    (COUNTS, "n = 5\nf()\nassert n == 6", True),
    (COUNTS, "n = 5\nf()\nassert n == 5", False),
    ("import math\ndef f(): return math.pi", "import math\nassert f() == math.pi", True),
    ("class math: pi = 4\ndef f(): return math.pi", "import math\nassert f() == math.pi", True),
    (OPENS, "try: f()\nexcept OSError as e: assert (e.errno, e.filename) == (2, '/nope')", True),
    (OPENS, "try: f()\nexcept OSError as e: assert e.errno == 3", False),
    (
        CHAINS,
        "try: f()\nexcept ValueError as e: assert type(e.__cause__) is ZeroDivisionError",
        True,
    ),
    (CHAINS, "try: f()\nexcept ValueError as e: assert e.__cause__ is None", False),
    (
        "import json\ndef f(): json.loads('{')",
        "import json\ntry: f()\nexcept json.JSONDecodeError as e: assert e.pos == 1",
        True,
    ),
    (
        "import re\ndef f(text): return re.search('a', text)",
        "assert f('cat') and not f('dog') and f('cat').group() == 'a'",
        True,
    ),
    (
        "import re\ndef f(text): return re.search('a', text)",
        "assert not f('cat')",
        False,
    ),
    (
        "class ValueError(Exception): pass\ndef f(): raise ValueError('x')",
        "import builtins\ntry: f()\nexcept builtins.ValueError: pass",
        False,
    ),
    (
        "def f():\n    class KeyError(Exception): pass\n    raise KeyError('x')",
        "try: f()\nexcept LookupError: pass",
        False,
    ),
]


@pytest.mark.parametrize(("code", "test", "passes"), ROWS)
@pytest.mark.parametrize("hackable", [True, False])
async def test_a_test_is_judged_as_in_one_process(
    sandbox: LocalSandbox, code: str, test: str, passes: bool, hackable: bool
) -> None:
    request = TestRequest(code=code, cases=(AssertCase(code=test),), hackable=hackable)
    report = await sandbox.test(request)
    assert (report.status is Status.ACCEPTED) is passes, report
    assert report.grading is Grading.OUTSIDE


async def test_a_name_that_is_only_set_is_no_question_to_the_program(
    sandbox: LocalSandbox,
) -> None:
    request = TestRequest(code=READS_X, cases=(AssertCase(code="x = 9"),), hackable=False)
    assert (await sandbox.test(request)).status is Status.UNGRADABLE


async def test_the_smallest_number_is_not_zero(sandbox: LocalSandbox) -> None:
    case = StdinCase(stdin="", expected_stdout="0", compare="numbers", tolerance=0)
    report = await sandbox.test(TestRequest(code="print('1e-7000000')", cases=(case,)))
    assert report.status is Status.WRONG_ANSWER


async def test_what_is_expected_is_text() -> None:
    with pytest.raises(ValueError, match="lone surrogates"):
        StdinCase(stdin="", expected_stdout="\udcff")


DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: int = 0"
NAMED = "from collections import namedtuple\nP = namedtuple('P', 'a b')\ndef f(): return P(1, 2)"


@pytest.mark.parametrize(
    ("code", "test"),
    [
        (DATACLASS, "from dataclasses import asdict\nassert asdict(P(1)) == {'x': 1, 'y': 0}"),
        (DATACLASS, "match P(1, 2):\n    case P(x=1, y=2): pass\n    case _: assert 0"),
        (DATACLASS, "assert P(1) == P(1, 0)"),
    ],
)
async def test_a_test_that_looks_into_the_programs_objects_runs_in_its_process(
    sandbox: LocalSandbox, code: str, test: str
) -> None:
    request = TestRequest(code=code, cases=(AssertCase(code=test),))
    report = await sandbox.test(request)
    assert (report.status, report.grading) == (Status.ACCEPTED, Grading.IN_PROCESS)
    refused = await sandbox.test(request.model_copy(update={"hackable": False}))
    assert refused.status is Status.UNGRADABLE


async def test_a_class_is_not_guessed_of_a_named_tuple(sandbox: LocalSandbox) -> None:
    tests = ("assert f() == P(1, 2) == (1, 2)", "assert isinstance(f(), P)")
    cases = tuple(AssertCase(code=test) for test in tests)
    report = await sandbox.test(TestRequest(code=NAMED, cases=cases, hackable=False))
    assert [case.status for case in report.cases] == [Status.ACCEPTED, Status.UNGRADABLE]


TAKES = "from itertools import islice\ndef take(it, n): return list(islice(it, n))"
DECORATES = (
    "import functools\ndef d(fn):\n    @functools.wraps(fn)\n"
    "    def w(*a): return fn(*a)\n    return w"
)
NAMES_IT = "import collections\nP = collections.namedtuple('P', 'a b')\ndef f(): return P(1, 2)"


@pytest.mark.parametrize(
    ("code", "test", "passes"),
    [
        (TAKES, "it = iter(range(4))\nassert take(it, 2) == [0, 1] and list(it) == []", False),
        (
            TAKES,
            "it = iter(range(4))\nassert take(it, 2) == [0, 1] and take(it, 2) == [2, 3]",
            True,
        ),
        (TAKES, "it = map(abs, [-1])\nassert take(it, 1) == [1]", True),
        (DECORATES, "@d\ndef foo():\n    'doc'\nassert foo.__name__ == 'foo'", True),
        (DECORATES, "@d\ndef foo():\n    'doc'\nassert foo.__doc__ != 'doc'", False),
    ],
)
async def test_what_a_program_may_look_at_is_handed_to_it_inside(
    sandbox: LocalSandbox, code: str, test: str, passes: bool
) -> None:
    case = AssertCase(code=test)
    report = await sandbox.test(TestRequest(code=code, cases=(case,), hackable=True))
    assert report.grading is Grading.IN_PROCESS
    assert (report.status is Status.ACCEPTED) is passes
    report = await sandbox.test(TestRequest(code=code, cases=(case,), hackable=False))
    assert report.status is Status.UNGRADABLE


async def test_the_class_of_a_returned_named_tuple_is_no_guess(sandbox: LocalSandbox) -> None:
    for test in ("assert type(f()) is not P", "assert type(f()) is P"):
        request = TestRequest(code=NAMES_IT, cases=(AssertCase(code=test),), hackable=False)
        assert (await sandbox.test(request)).status is Status.UNGRADABLE


@pytest.mark.parametrize(
    "argument",
    ["iter([1, 2])", "map(int, '12')", "(n for n in (1, 2))", "zip([1, 2])", "filter(None, [1])"],
)
async def test_an_iterator_without_a_name_is_read_for_the_program(
    sandbox: LocalSandbox, argument: str
) -> None:
    for kind, passes in (("list", True), ("tuple", False)):
        test = f"assert f({argument}) == {kind}({argument})"
        request = TestRequest(
            code="def f(it): return list(it)", cases=(AssertCase(code=test),), hackable=False
        )
        report = await sandbox.test(request)
        assert (report.grading, report.status is Status.ACCEPTED) == (Grading.OUTSIDE, passes)
