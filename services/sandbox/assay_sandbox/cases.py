"""Call and assertion cases: run one after the other in the program's process, judged outside.

Each case has the program's limits to itself. One that ends the process (a crash, a limit) is
judged by how it ended, and a new process goes on with the next.
"""

import time
from collections.abc import Awaitable, Callable

from assay_sandbox.program import Records, Source, status_of
from assay_sandbox.run import Ending, Plan, Run
from assay_sandbox.values import MalformedValue, decode, same, show
from assay_shared.types import AssertCase, CallCase, CaseResult, Status, TestCase, TestRequest

Play = Callable[[Plan, Callable[[Run, bytes], None]], Awaitable[Ending]]


async def run_cases(play: Play, request: TestRequest) -> list[CaseResult]:
    """The results of all cases, in order; None as status for those after a stop.

    Args:
        play: runs a plan in some slot, and hands each record on.
    """
    results: list[CaseResult] = []
    while len(results) < len(request.cases):
        left = request.cases[len(results) :]
        results += await _run_process(play, request, left)
        if request.stop_on_first_failure and results[-1].status is not Status.ACCEPTED:
            break
    return results + [CaseResult(status=None)] * (len(request.cases) - len(results))


async def _run_process(
    play: Play, request: TestRequest, cases: tuple[TestCase, ...]
) -> list[CaseResult]:
    """At least one result: of all cases, or of those up to the one that ended the process."""
    sitting = Sitting(cases, request.stop_on_first_failure)
    source = Source(request.code, request.language, request.limits)
    ending = await play(source.plan(cases=tuple(_plan(case) for case in cases)), sitting.take)
    return sitting.results(ending, request)


def _plan(case: TestCase) -> dict[str, object]:
    """What the harness needs to run a case: never what is expected of it."""
    if isinstance(case, CallCase):
        return {"function": case.function, "args": list(case.args)}
    assert isinstance(case, AssertCase)
    return {"code": case.code}


class Sitting:
    """The records of one process: which case has begun, and how those before it went."""

    def __init__(self, cases: tuple[TestCase, ...], stop_on_first_failure: bool) -> None:
        self._cases = cases
        self._stop_on_first_failure = stop_on_first_failure
        self._stopped = False
        self._results: list[CaseResult] = []
        self._records = Records()
        self._begun: float | None = None

    def take(self, run: Run, line: bytes) -> None:
        """One record, as it comes. A case's clock starts when the case does."""
        kind, _, rest = line.partition(b" ")
        if self._stopped:
            return
        if kind == b"start":
            run.clock.restart()
            self._begun = time.monotonic()
        elif kind in (b"value", b"passed", b"failed", b"raised"):
            self._end_case(kind, rest)
            if self._stop_on_first_failure and self._has_failed():
                self._stopped = True
                run.kill()
        else:
            self._records.take(line)

    def _has_failed(self) -> bool:
        return bool(self._results) and self._results[-1].status is not Status.ACCEPTED

    def _end_case(self, kind: bytes, rest: bytes) -> None:
        number, _, payload = rest.partition(b" ")
        index = len(self._results)
        if number != b"%d" % index or index >= len(self._cases) or self._begun is None:
            return  # forged: the harness ends only the case that it has begun
        took_s = time.monotonic() - self._begun
        self._begun = None
        status, message = _judge(self._cases[index], kind, payload)
        self._results.append(CaseResult(status=status, message=message, wall_time_s=took_s))

    def results(self, ending: Ending, request: TestRequest) -> list[CaseResult]:
        """What is known once the process has ended."""
        results, whole = self._results, len(self._cases)
        if self._stopped or (len(results) == whole and self._records.done):
            return results
        status, message = status_of(ending, self._records, request.limits)
        if status is None:
            status, message = Status.RUNTIME_ERROR, "the program ended before its cases did"
        ended = CaseResult(status=status, message=message)
        if self._begun is None and not results:
            return [ended] * whole  # the program itself failed: so would it for each case
        if len(results) == whole:
            results.pop()  # it ended within the last case, after a record that it forged
        return [*results, ended]


def _judge(case: TestCase, kind: bytes, payload: bytes) -> tuple[Status, str]:
    text = payload.decode(errors="replace")
    if kind == b"raised":
        return Status.RUNTIME_ERROR, text
    if isinstance(case, AssertCase):
        passed = kind == b"passed"
        return (Status.ACCEPTED, "") if passed else (Status.WRONG_ANSWER, text)
    if not isinstance(case, CallCase) or kind != b"value":
        return Status.RUNTIME_ERROR, "a record of the wrong kind"
    try:
        value = decode(payload)
    except MalformedValue:
        return Status.RUNTIME_ERROR, "a record that cannot be read"
    if same(value, case.expected):
        return Status.ACCEPTED, ""
    return Status.WRONG_ANSWER, f"returned {show(value)}"
