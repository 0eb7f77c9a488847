"""Call and assertion cases: run one after the other in the program's process, judged outside.

Each case has the program's limits to itself. One that ends the process (a crash, a limit) is
judged by how it ended, and a new process goes on with the next.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise

from assay_sandbox.assertions import Assertion, CannotSplit, split
from assay_sandbox.program import Program, Records, status_of
from assay_sandbox.run import Ending, Plan, Run
from assay_sandbox.values import MalformedValue, decode, same, show
from assay_shared.errors import InvalidInput
from assay_shared.together import together
from assay_shared.types import (
    AssertCase,
    CallCase,
    CaseResult,
    Grading,
    Status,
    TestCase,
)

Play = Callable[[Plan, Callable[[Run, bytes], None]], Awaitable[Ending]]
Judge = Callable[[bytes, bytes], tuple[Status, str]]
#: Fewer questions than this are not worth another process.
_MIN_SHARE = 16
_MAX_SECONDS = 1e6


@dataclass(frozen=True)
class Question:
    """One thing asked of the program's process, and how its record is judged here.

    A case is one question or, where it is test code that can be split, one for each assertion.
    """

    case: int
    #: What the harness needs: never what is expected of it.
    plan: dict[str, object]
    judge: Judge
    grading: Grading = Grading.OUTSIDE


def ask(cases: Sequence[TestCase], *, hackable: bool) -> list[Question]:
    """The questions of all cases, in order.

    Raises:
        InvalidInput: a case can only be graded in the program's process, which is not allowed.
    """
    found: list[Question] = []
    for index, case in enumerate(cases):
        if isinstance(case, CallCase):
            plan: dict[str, object] = {"function": case.function, "args": list(case.args)}
            found.append(Question(index, plan, partial(_judge_call, case)))
        elif isinstance(case, AssertCase):
            found += _ask_assertions(index, case, hackable=hackable)
    return found


def worst_grading(questions: Sequence[Question]) -> Grading:
    """Where the least trustworthy of the answers was compared."""
    inside = any(question.grading is Grading.IN_PROCESS for question in questions)
    return Grading.IN_PROCESS if inside else Grading.OUTSIDE


def _ask_assertions(index: int, case: AssertCase, *, hackable: bool) -> list[Question]:
    try:
        assertions = split(case.code)
    except CannotSplit as error:
        if not hackable:
            raise InvalidInput(
                f"the case cannot be graded outside the program's process: {error}",
                field=f"cases.{index}.code",
                hint="allow it with hackable: true",
            ) from None
        plan: dict[str, object] = {"code": case.code}
        return [Question(index, plan, _judge_in_process, Grading.IN_PROCESS)]
    return [
        Question(
            index, {"expression": one.inside, "setup": one.setup}, partial(_judge_assertion, one)
        )
        for one in assertions
    ]


async def run_cases(
    play: Play, program: Program, questions: Sequence[Question], *, num_slots: int, stop: bool
) -> list[CaseResult]:
    """The results of all cases, in order; None as status for those after a stop.

    Args:
        play: runs a plan in some slot, and hands each record on.
        num_slots: over how many slots they may be spread.
        stop: whether no case is run after one that failed.
    """
    num_shares = 1 if stop else min(num_slots, -(-len(questions) // _MIN_SHARE))
    shares = _shares(questions, num_shares)
    parts = await together(_run_share(play, program, share, stop) for share in shares)
    answers = [answer for part in parts for answer in part]
    answered = zip(questions, answers, strict=True)
    return [
        _fold([answer for _, answer in pairs])
        for _, pairs in groupby(answered, key=lambda pair: pair[0].case)
    ]


def _shares(questions: Sequence[Question], num_shares: int) -> list[Sequence[Question]]:
    """As many runs of questions, about equally long."""
    bounds = [len(questions) * i // num_shares for i in range(num_shares + 1)]
    return [questions[start:end] for start, end in pairwise(bounds)]


async def _run_share(
    play: Play, program: Program, questions: Sequence[Question], stop: bool
) -> list[CaseResult]:
    answers: list[CaseResult] = []
    while len(answers) < len(questions):
        answers += await _run_process(play, program, questions[len(answers) :], stop)
        if stop and answers[-1].status is not Status.ACCEPTED:
            break
    return answers + [CaseResult(status=None)] * (len(questions) - len(answers))


def _fold(answers: list[CaseResult]) -> CaseResult:
    """A case is what its first question is that does not hold."""
    failed = (one for one in answers if one.status is not Status.ACCEPTED)
    worst = next(failed, answers[0])
    whole = {
        "wall_time_s": sum(one.wall_time_s for one in answers),
        "cpu_time_s": sum(one.cpu_time_s for one in answers),
    }
    return worst.model_copy(update=whole)


async def _run_process(
    play: Play, program: Program, questions: Sequence[Question], stop: bool
) -> list[CaseResult]:
    """At least one answer: to all questions, or to those up to the one that ended the process."""
    sitting = Sitting(questions, stop)
    plan = program.plan(cases=tuple(question.plan for question in questions))
    ending = await play(plan, sitting.take)
    memory = {"peak_memory_bytes": ending.peak_memory_bytes}
    return [one.model_copy(update=memory) for one in sitting.results(ending, program)]


class Sitting:
    """The records of one process: which question has begun, and how those before it went."""

    def __init__(self, questions: Sequence[Question], stop_on_first_failure: bool) -> None:
        self._questions = questions
        self._stop_on_first_failure = stop_on_first_failure
        self._stopped = False
        self._results: list[CaseResult] = []
        self._records = Records()
        self._begun: float | None = None
        self._cpu_time_s = 0.0
        self._run: Run | None = None

    def take(self, run: Run, line: bytes) -> None:
        """One record, as it comes. A case's clock starts when the case does."""
        kind, _, rest = line.partition(b" ")
        if run is not self._run:  # the first one, or another after a slot was lost
            self._run, self._begun = run, None
            self._results.clear()
        if self._stopped:
            return
        if kind == b"start":
            self._start_case(run, rest)
        elif kind == b"cpu":
            self._cpu_time_s = _read_number(rest)
        elif kind in (b"value", b"passed", b"failed", b"raised"):
            self._end_case(kind, rest)
            if self._stop_on_first_failure and self._has_failed():
                self._stopped = True
                run.kill()
        else:
            self._records.take(line)

    def _start_case(self, run: Run, number: bytes) -> None:
        """Restart the clock, once for each case: a program can write this record as well."""
        if self._begun is None and number == b"%d" % len(self._results):
            run.begin_case()
            self._begun = time.monotonic()

    def _has_failed(self) -> bool:
        return bool(self._results) and self._results[-1].status is not Status.ACCEPTED

    def _end_case(self, kind: bytes, rest: bytes) -> None:
        number, _, payload = rest.partition(b" ")
        index = len(self._results)
        if number != b"%d" % index or index >= len(self._questions) or self._begun is None:
            return  # forged: the harness ends only the case that it has begun
        took_s = time.monotonic() - self._begun
        self._begun = None
        status, message = self._questions[index].judge(kind, payload)
        self._results.append(
            CaseResult(
                status=status, message=message, wall_time_s=took_s, cpu_time_s=self._cpu_time_s
            )
        )

    def results(self, ending: Ending, program: Program) -> list[CaseResult]:
        """What is known once the process has ended."""
        results, whole = self._results, len(self._questions)
        if self._stopped or (len(results) == whole and self._records.done):
            return results
        status, message = status_of(ending, self._records, program)
        if status is None:
            status, message = Status.RUNTIME_ERROR, "the program ended before its cases did"
        took_s = 0.0 if self._begun is None else time.monotonic() - self._begun
        rest_s = max(0.0, ending.cpu_time_s - sum(one.cpu_time_s for one in results))
        ended = CaseResult(status=status, message=message, wall_time_s=took_s, cpu_time_s=rest_s)
        if self._begun is None and not results:
            return [ended] * whole  # the program itself failed: so would it for each case
        if len(results) == whole:
            results.pop()  # it ended within the last case, after a record that it forged
        return [*results, ended]


def _read_number(text: bytes) -> float:
    """What the program's process says of itself, which may be anything."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if 0.0 <= number < _MAX_SECONDS else 0.0


def _judge_in_process(kind: bytes, payload: bytes) -> tuple[Status, str]:
    text = payload.decode(errors="replace")
    if kind == b"passed":
        return Status.ACCEPTED, ""
    return (Status.WRONG_ANSWER if kind == b"failed" else Status.RUNTIME_ERROR), text


def _judge_call(case: CallCase, kind: bytes, payload: bytes) -> tuple[Status, str]:
    value, trouble = _value(kind, payload)
    if trouble is not None:
        return Status.RUNTIME_ERROR, trouble
    if same(value, case.expected):
        return Status.ACCEPTED, ""
    return Status.WRONG_ANSWER, f"returned {show(value)}"


def _judge_assertion(assertion: Assertion, kind: bytes, payload: bytes) -> tuple[Status, str]:
    values, trouble = _value(kind, payload)
    if trouble is not None:
        return Status.RUNTIME_ERROR, trouble
    if not isinstance(values, tuple):
        return Status.RUNTIME_ERROR, "a record that cannot be read"
    shown = f"{assertion.inside[1:-2]} is {', '.join(map(show, values))}"
    try:
        holds = assertion.holds(values)
    except (ArithmeticError, TypeError, ValueError, LookupError, RecursionError) as error:
        return Status.RUNTIME_ERROR, f"{type(error).__name__}: {error}; {shown}"
    return (Status.ACCEPTED, "") if holds else (Status.WRONG_ANSWER, shown)


def _value(kind: bytes, payload: bytes) -> tuple[object, str | None]:
    """What a record says was computed, or what is wrong with it."""
    if kind == b"raised":
        return None, payload.decode(errors="replace")
    if kind != b"value":
        return None, "a record of the wrong kind"
    try:
        return decode(payload), None
    except MalformedValue:
        return None, "a record that cannot be read"
