"""Slots and plain Python, compared: the comparison itself, and a part of the corpus."""

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from assay_sandbox.equivalence import report
from assay_sandbox.equivalence.corpora import CORPORA, Choice, subjects_of
from assay_sandbox.equivalence.measure import EquivalenceResult, EquivalenceRun
from assay_sandbox.equivalence.plain import PlainPython, plain_interpreter
from assay_sandbox.equivalence.slot import SlotPython
from assay_sandbox.equivalence.subjects import RunOutcome, StdinTest, Subject, limits_of
from assay_sandbox.sandbox import LocalSandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import DatasetError
from assay_shared.types import Status

LIMITS = limits_of(3.0)
NUM_OF_EACH_SET = 14
#: What CI runs of the corpus; CPython's own tests take too long.
IN_CI = tuple(name for name in CORPORA if name not in ("cpython", "odd"))


@pytest.fixture(scope="module")
def plain() -> Iterator[PlainPython]:
    with plain_interpreter(SandboxSettings()) as python:
        yield PlainPython(python, LIMITS, jobs=2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slots() -> AsyncIterator[LocalSandbox]:
    from tests.unit.sandbox.conftest import open_sandbox

    sandbox = await open_sandbox()
    yield sandbox
    await sandbox.close()


class OtherSlot(SlotPython):
    """Gives its planned answer, for every request."""

    def __init__(self, outcome: RunOutcome) -> None:
        self._outcome = outcome

    async def run(self, subject: Subject) -> RunOutcome:
        return self._outcome


def script(code: str, stdin: str = "") -> Subject:
    return Subject("one", "test", "script", code, stdin=stdin)


async def compare(plain: PlainPython, slot: SlotPython, *subjects: Subject) -> EquivalenceResult:
    return await EquivalenceRun(plain, slot, LIMITS).measure(subjects, 2, EquivalenceResult())


async def compare_with(plain: PlainPython, subject: Subject, outcome: RunOutcome) -> str | None:
    """Return the rule for the difference from an outcome; raise if there is no difference."""
    (difference,) = (await compare(plain, OtherSlot(outcome), subject)).differences
    return difference.rule


def printed(text: str, **other: object) -> RunOutcome:
    known: dict[str, object] = {"statuses": ("accepted",), "exit_code": 0}
    return RunOutcome(stdout=text.encode(), **(known | other))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "status", "exit_code"),
    [
        ("print(1)", Status.ACCEPTED, 0),
        ("raise SystemExit(3)", Status.RUNTIME_ERROR, 3),
        ("1 / 0", Status.RUNTIME_ERROR, 1),
        ("print(1", Status.SYNTAX_ERROR, 1),
        ("exec('1 +')", Status.RUNTIME_ERROR, 1),
        ("import os; os.kill(os.getpid(), 9)", Status.RUNTIME_ERROR, -9),
        ("x = bytearray(2**31)", Status.MEMORY_LIMIT, 1),
        ("import os\nwhile True: os.write(1, bytes(2**16))", Status.OUTPUT_LIMIT, -9),
    ],
)
async def test_plain_python_says_how_a_program_ended(
    plain: PlainPython, code: str, status: Status, exit_code: int
) -> None:
    outcome = await plain.run(script(code))
    assert outcome.statuses == (status,)
    assert outcome.exit_code == exit_code


@pytest.mark.slow
async def test_plain_python_ends_what_takes_too_long_and_its_children(plain: PlainPython) -> None:
    outcome = await plain.run(script("import os\nos.fork()\nwhile True: pass"))
    assert outcome.statuses == (Status.TIME_LIMIT,)


async def test_plain_python_judges_each_case_by_itself(plain: PlainPython) -> None:
    cases = ("assert f(2) == 4", "assert f(3) == 7", "assert f('') == 0", "assert g()")
    code = "def f(x):\n    return x * 2 if x else 0 / 0"
    outcome = await plain.run(Subject("one", "test", "assert", code, cases=cases))
    wrong, failed = Status.WRONG_ANSWER, Status.RUNTIME_ERROR
    assert outcome.statuses == (Status.ACCEPTED, wrong, failed, failed)


async def test_an_assertion_of_the_program_itself_is_its_own_failure(plain: PlainPython) -> None:
    subject = Subject("one", "test", "assert", "x = 1\nassert x == 2", cases=("assert x == 1",))
    assert (await plain.run(subject)).statuses == (Status.RUNTIME_ERROR,)


async def test_plain_python_compares_lines(plain: PlainPython) -> None:
    tests = (StdinTest("4", "4 \n\n"), StdinTest("5", "6"), StdinTest("x", "x"))
    subject = Subject("one", "test", "stdin", "print(int(input()))", tests=tests)
    expected = (Status.ACCEPTED, Status.WRONG_ANSWER, Status.RUNTIME_ERROR)
    assert (await plain.run(subject)).statuses == expected


@pytest.mark.parametrize(
    "outcome",
    [
        printed("41\n"),
        printed("42"),
        printed("42\n", exit_code=1),
        printed("42\n", statuses=("runtime_error",)),
        printed("42\n", statuses=("time_limit",)),
        printed("42\n", statuses=("sandbox_error",), exit_code=None),
        printed("", statuses=("refused",), exit_code=None),
    ],
)
async def test_a_planted_difference_is_found_and_has_no_reason(
    plain: PlainPython, outcome: RunOutcome
) -> None:
    assert await compare_with(plain, script("print(42)"), outcome) is None


async def test_only_lines_that_plain_python_does_not_repeat_may_vary(plain: PlainPython) -> None:
    subject = script("import time\nprint(1)\nprint(time.time_ns())")
    assert await compare_with(plain, subject, printed("1\n7\n")) == "prints what varies"
    assert await compare_with(plain, subject, printed("2\n7\n")) is None
    assert await compare_with(plain, subject, printed("1\n")) is None
    crashed = printed("1\n7\n", statuses=("runtime_error",), exit_code=1)
    assert await compare_with(plain, subject, crashed) is None


async def test_only_a_path_of_its_own_may_be_another(plain: PlainPython) -> None:
    subject = script("import os\nprint('in', os.getcwd() + '/x', 1)")
    assert await compare_with(plain, subject, printed("in /w/x 1\n")) == "prints its folder"
    assert await compare_with(plain, subject, printed("in /w/x 2\n")) is None
    assert await compare_with(plain, subject, printed("in  1\n")) is None


@pytest.mark.slow
async def test_only_a_program_near_its_limit_may_be_over_it(plain: PlainPython) -> None:
    over = printed("", statuses=("time_limit",), exit_code=-9, cpu_time_s=LIMITS.cpu_time_s)
    near = "import time\nwhile time.process_time() < 2.4: pass"
    assert await compare_with(plain, script(near), over) == "near the time limit"
    far = "import time\nwhile time.process_time() < 1.5: pass"
    assert await compare_with(plain, script(far), over) is None


@pytest.mark.parametrize(
    ("way", "statuses", "rule"),
    [
        ("assert outside", ("accepted", "ungradable"), "ungradable"),
        ("assert outside", ("refused", "refused"), "ungradable"),
        ("assert outside", ("wrong_answer", "ungradable"), None),
        ("assert", ("accepted", "ungradable"), None),
    ],
)
async def test_only_a_case_without_a_verdict_is_ungradable(
    plain: PlainPython, way: str, statuses: tuple[str, ...], rule: str | None
) -> None:
    cases = ("assert f() == 1", "assert f() != 2")
    subject = Subject("one", "test", way, "def f(): return 1", cases=cases)  # type: ignore[arg-type]
    assert await compare_with(plain, subject, RunOutcome(statuses)) == rule


async def test_the_report_counts_and_shows_each_difference(plain: PlainPython) -> None:
    seen = await compare(
        plain, OtherSlot(printed("41\n")), script("print(42)"), script("print(41)")
    )
    assert list(report.rows(seen)) == [
        ("test", "script", "2", "1", "0", "1"),
        ("all", "", "2", "1", "0", "1"),
    ]
    lines = [line for one in seen.unexplained for line in report.describe(one)]
    assert lines[0] == "test: one (script): stdout"
    assert lines[-2:] == ["  -42", "  +41"]
    facts = json.loads(json.dumps(report.facts(seen)))
    assert [(one["rule"], one["stdout"]) for one in facts["differences"]] == [
        (None, ["-42", "+41"])
    ]


def test_a_sample_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    def names(seed: int) -> list[str]:
        return [one.id for one in subjects_of(Choice(("odd",), limit=10, seed=seed), tmp_path)]

    assert names(1) == names(1) != names(2)
    with pytest.raises(DatasetError, match="no_such_set"):
        subjects_of(Choice(("no_such_set",)), tmp_path)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.slow
@pytest.mark.promise("verdicts equal plain Python's")
async def test_odd_programs_end_as_in_plain_python(
    plain: PlainPython, slots: LocalSandbox, tmp_path: Path
) -> None:
    subjects = subjects_of(Choice(("odd",)), tmp_path)
    seen = await compare(plain, SlotPython(slots, LIMITS), *subjects)
    assert seen.num_subjects > 100
    assert [line for one in seen.unexplained for line in report.describe(one)] == []


@pytest.mark.skipif("ASSAY_DATA" not in os.environ, reason="needs real data: set ASSAY_DATA")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.slow
async def test_a_part_of_the_corpus_is_judged_as_by_plain_python(
    plain: PlainPython, slots: LocalSandbox
) -> None:
    choice = Choice(IN_CI, limit=NUM_OF_EACH_SET, seed=15)
    subjects = subjects_of(choice, Path(os.environ["ASSAY_DATA"]))
    seen = await compare(plain, SlotPython(slots, LIMITS), *subjects)
    assert seen.num_subjects == NUM_OF_EACH_SET * len(IN_CI)
    assert [line for one in seen.unexplained for line in report.describe(one)] == []
