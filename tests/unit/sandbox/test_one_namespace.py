"""Test code and program share their global names and their exceptions, as in one process."""

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
ROWS = [
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
