"""Programs that never end: a verdict in bounded time, the same one each time."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from assay_sandbox.sandbox import LocalSandbox
from assay_shared.types import CallCase, Limits, Status, StdinCase, TestRequest
from tests.unit.sandbox.conftest import open_sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Two timeouts, then the rest is skipped.
LIMITS = Limits(cpu_time_s=0.3, wall_time_s=15.0)
SLOW = frozenset({5, 20})
CALLED = "def f(x):\n    while x in {slow}:\n        pass\n    return x\n"
READING = "x = int(input())\nwhile x in {slow}:\n    pass\nprint(x)\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[LocalSandbox]:
    opened = await open_sandbox(sandbox_slots=3)
    yield opened
    await opened.close()


def request(kind: str, num_cases: int, slow: frozenset[int]) -> TestRequest:
    """Return a program that never ends in the cases `slow`."""
    calls = [CallCase(function="f", args=(i,), expected=i) for i in range(num_cases)]
    stdin = [StdinCase(stdin=str(i), expected_stdout=str(i)) for i in range(num_cases)]
    code = (CALLED if kind == "call" else READING).replace("{slow}", str(set(slow)))
    return TestRequest(code=code, cases=calls if kind == "call" else stdin, limits=LIMITS)


@pytest.mark.parametrize("kind", ["call", "stdin"])
async def test_a_program_that_never_ends_is_judged(sandbox: LocalSandbox, kind: str) -> None:
    report = await sandbox.test(request(kind, 200, frozenset(range(200))))
    assert report.status is Status.TIME_LIMIT
    assert {case.status for case in report.cases} == {Status.TIME_LIMIT}
    assert [case.message.startswith("not run: 2 cases") for case in report.cases] == (
        [False] * 2 + [True] * 198
    )


@pytest.mark.parametrize("kind", ["call", "stdin"])
async def test_the_order_of_the_cases_decides(sandbox: LocalSandbox, kind: str) -> None:
    report = await sandbox.test(request(kind, 64, SLOW))
    expected = [Status.TIME_LIMIT if i in SLOW or i > 20 else Status.ACCEPTED for i in range(64)]
    assert [case.status for case in report.cases] == expected
    assert report.pass_ratio == 19 / 64


@pytest.mark.parametrize("kind", ["call", "stdin"])
async def test_one_slow_case_skips_none(sandbox: LocalSandbox, kind: str) -> None:
    report = await sandbox.test(request(kind, 40, frozenset({3})))
    assert report.num_passed == 39


async def test_a_skipped_case_has_a_run_without_output(sandbox: LocalSandbox) -> None:
    judged = await sandbox.judge_stdin(request("stdin", 30, SLOW))
    result, run = judged[-1]
    assert result.status is run.status is Status.TIME_LIMIT
    assert (run.stdout, run.stderr) == ("", "")
    assert run.message == result.message
