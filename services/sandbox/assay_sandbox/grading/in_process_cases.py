"""Call and assertion cases: a program in one slot, its grader in another.

The grader runs the test code and asks the program's process to call its functions. So the verdict
and the expected values never enter that process. Each case has the program's whole limits. If a
case ends the program (a crash, a limit), its verdict is this end, and a new pair of processes
continues with the next case. If only the program's process can run a case's test code, and the
request allows it, the case is run there, from the beginning and in a new process. Otherwise the
case is ungradable.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from assay_sandbox.execution.pairs import SlotPair
from assay_sandbox.execution.pool import Losses
from assay_sandbox.execution.program import Program, Records, status_of
from assay_sandbox.execution.run import RunningProgram, RunResult, RunSpec, SlotLost
from assay_sandbox.grading.patience import first_skipped, max_timeouts, skipped
from assay_shared.errors import SandboxFault
from assay_shared.runtime.gather import gather
from assay_shared.types import AssertCase, CallCase, CaseResult, Grading, Status, TestCase

#: Fewer cases than this are not worth another pair of processes.
_MIN_SHARE = 16
#: Limits of a grader for a case: at least this CPU time and memory, this much more wall time.
_MIN_CPU_S, _MIN_MEMORY_BYTES, _MORE_WALL_S = 2.0, 512 * 2**20, 10.0
_OUTPUT_BYTES = 2**20
_VERDICTS = {
    b"passed": Status.ACCEPTED,
    b"failed": Status.WRONG_ANSWER,
    b"raised": Status.RUNTIME_ERROR,
    b"memory": Status.MEMORY_LIMIT,
    b"cannot": Status.UNGRADABLE,
    b"needs": Status.UNGRADABLE,
}


@dataclass(frozen=True)
class Question:
    """A case, as the grader gets it."""

    plan: dict[str, object]
    #: The case may be run in the program's process, where the program can forge the verdict.
    may_go_inside: bool = False


@dataclass(frozen=True)
class Graded:
    """A case's result and the place of its grading."""

    result: CaseResult
    grading: Grading = Grading.OUTSIDE


def ask(cases: Sequence[TestCase], *, hackable: bool) -> list[Question]:
    """Return the call and assertion cases as questions, in order."""
    found: list[Question] = []
    for case in cases:
        if isinstance(case, CallCase):
            call: dict[str, object] = {"function": case.function, "args": list(case.args)}
            found.append(Question(call | {"expected": case.expected}))
        elif isinstance(case, AssertCase):
            code = {"code": case.code, "inside": False, "hackable": hackable}
            found.append(Question(code, may_go_inside=hackable))
    return found


def worst_grading(graded: Sequence[Graded]) -> Grading:
    """Return the place of the least trustworthy verdict."""
    inside = any(one.grading is Grading.IN_PROCESS for one in graded)
    return Grading.IN_PROCESS if inside else Grading.OUTSIDE


async def run_cases(
    pair: SlotPair, program: Program, questions: Sequence[Question], *, num_slots: int, stop: bool
) -> list[Graded]:
    """Run the cases and return all results in order; the status of a case after a stop is None.

    Args:
        pair: runs the program and its grader.
        num_slots: most pairs of slots to spread the cases over.
        stop: run no case after a failed case.
    """
    patience = max_timeouts(program.limits)
    num_shares = 1 if stop else min(num_slots, -(-len(questions) // _MIN_SHARE))
    graded: list[Graded] = []
    if num_shares > 1:
        # A program that never ends would hold many slots for nothing: its first case tells.
        graded = await _run_share(pair, program, questions[:1], stop, patience)
        if graded[0].result.status is Status.TIME_LIMIT:
            num_shares, patience = 1, patience - 1
    shares = _shares(questions[len(graded) :], num_shares)
    parts = await gather(_run_share(pair, program, one, stop, patience) for one in shares)
    graded += [one for part in parts for one in part]
    end = first_skipped([one.result for one in graded], program.limits)
    return graded[:end] + [Graded(skipped(program.limits))] * (len(graded) - end)


def _shares(questions: Sequence[Question], num_shares: int) -> list[Sequence[Question]]:
    """Split the questions into `num_shares` runs of about equal length."""
    bounds = [len(questions) * i // num_shares for i in range(num_shares + 1)]
    return [questions[start:end] for start, end in pairwise(bounds)]


async def _run_share(
    pair: SlotPair, program: Program, questions: Sequence[Question], stop: bool, patience: int
) -> list[Graded]:
    """Run cases one after another, up to `patience` timeouts, and return all results in order."""
    left = list(questions)
    graded: list[Graded] = []
    losses = Losses()
    while left and sum(one.result.status is Status.TIME_LIMIT for one in graded) < patience:
        records = CaseRecords(left, stop)
        try:
            new = await records.run(pair, program)
        except SlotLost:
            losses.add(is_own=False)
            if losses.are_too_many:
                raise
            continue
        graded += new
        left = left[len(new) :]
        if records.lost is not None:
            losses.add(is_own=True)
            if losses.are_own:
                return graded + [Graded(records.lost)] * len(left)
        if records.goes_inside:
            left[0] = replace(left[0], plan=left[0].plan | {"inside": True})
        if stop and graded and graded[-1].result.status is not Status.ACCEPTED:
            break
    return graded + [Graded(CaseResult(status=None))] * len(left)


class CaseRecords:
    """The records of a pair of processes: the running case, and the verdicts on earlier cases."""

    def __init__(self, questions: Sequence[Question], stop_on_first_failure: bool) -> None:
        self._questions = questions
        self._stop_on_first_failure = stop_on_first_failure
        self._graded: list[Graded] = []
        self._records = Records()
        self._grader_has_begun = False
        #: No more records count: all cases are done, or the pair must not run the rest.
        self._is_over = False
        self._begun: float | None = None
        self._grading = Grading.OUTSIDE
        self._program: RunningProgram | None = None
        #: Set after a lost slot: the result of the next case if it loses a slot again.
        self.lost: CaseResult | None = None
        #: The next case must be run again, in the program's process.
        self.goes_inside = False

    async def run(self, pair: SlotPair, program: Program) -> list[Graded]:
        """Run both processes and return the results of the first cases.

        The results can only be empty if `goes_inside` or `lost` is set afterwards.
        """
        num_cases = len(self._questions)
        plans = (program.plan(num_cases=num_cases), self._grader_plan(program))
        ending, grader_ending = await pair.play(*plans, self._take_program, self._take_grader)
        results = self._finish(ending, grader_ending, program)
        return [
            replace(one, result=self._with_usage(index, one.result, ending))
            for index, one in enumerate(results)
        ]

    def _grader_plan(self, program: Program) -> RunSpec:
        limits = program.limits
        own = limits.model_copy(
            update={
                "cpu_time_s": max(limits.cpu_time_s, _MIN_CPU_S),
                "memory_bytes": max(limits.memory_bytes, _MIN_MEMORY_BYTES),
                "wall_time_s": limits.wall_time_s + _MORE_WALL_S,
                "output_bytes": _OUTPUT_BYTES,
            }
        )
        bare = replace(program, files={}, arguments=(), text=None, limits=own)
        plan = bare.plan(num_cases=len(self._questions))
        cases = [question.plan for question in self._questions]
        return replace(plan, body=plan.body | {"part": "grader", "cases": cases})

    def _take_program(self, run: RunningProgram, line: bytes) -> None:
        self._program = run
        self._records.take(line)

    def _take_grader(self, run: RunningProgram, line: bytes) -> None:
        """Take a record of the grader. The clock of a case starts when the case starts."""
        kind, _, rest = line.partition(b" ")
        self._grader_has_begun = True
        if self._is_over or self._program is None or self._program.is_out_of_output:
            return  # its output is no longer read, and this alone can make its cases fail
        if kind in (b"begun", b"start"):
            run.begin_case()
            self._program.begin_case()
        if kind == b"start":
            self._begun, self._grading = time.monotonic(), Grading.OUTSIDE
        elif kind == b"inside":
            self._grading = Grading.IN_PROCESS
        elif kind in _VERDICTS:
            self._end_case(kind, rest.partition(b" ")[2])
        if self._is_over or kind == b"done":
            self._is_over = True
            self._program.kill()
            run.kill()

    def _end_case(self, kind: bytes, text: bytes) -> None:
        case = self._questions[len(self._graded)]
        if kind == b"needs" and case.may_go_inside and not case.plan["inside"]:
            self.goes_inside = self._is_over = True
            return
        self._add(_VERDICTS[kind], text.decode(errors="replace"))
        ends = kind in (b"cannot", b"needs", b"memory")  # the program's state is now unknown
        failed = kind != b"passed" and self._stop_on_first_failure
        self._is_over = ends or failed or len(self._graded) == len(self._questions)

    def _add(self, status: Status | None, message: str) -> None:
        took_s = 0.0 if self._begun is None else time.monotonic() - self._begun
        result = CaseResult(status=status, message=message, wall_time_s=took_s)
        self._graded.append(Graded(result, self._grading))
        self._begun = None

    def _finish(
        self, ending: RunResult, grader: RunResult | None, program: Program
    ) -> list[Graded]:
        """Return the results after both processes have ended."""
        if self._is_over:
            return self._graded
        if ending.ended_its_slot or (grader is not None and grader.ended_its_slot):
            self.lost = _lost(ending)
            return self._graded
        if grader is not None and not self._grader_has_begun:
            raise SandboxFault(f"a grader never began: {grader.stderr.decode(errors='replace')}")
        if grader is not None and _ended_by_limit(grader):
            self._add(Status.UNGRADABLE, f"comparing took too much {_ended_by_limit(grader)}")
            return self._graded
        status, message = status_of(ending, self._records, program)
        if status is None:
            status, message = Status.RUNTIME_ERROR, "the program ended before its cases did"
        if self._begun is None and not self._graded:
            # The program failed before its first case: it would do so for each case.
            return [Graded(CaseResult(status=status, message=message))] * len(self._questions)
        if self._was_late(ending, program):
            return self._graded
        self._add(status, message)
        return self._graded

    def _was_late(self, ending: RunResult, program: Program) -> bool:
        """Return True if the program's time had ended before its current case began.

        This happens if the grader took long over the case before; the current case is run again.
        """
        if not ending.out_of_time or not self._graded or self._begun is None:
            return False
        return time.monotonic() - self._begun < program.limits.wall_time_s

    def _with_usage(self, index: int, result: CaseResult, ending: RunResult) -> CaseResult:
        times = ending.case_cpu_times_s[2:]  # the first two are for loading the program
        shared_s = ending.cpu_time_s / max(1, len(self._graded))
        cpu_time_s = times[index] if index < len(times) else shared_s
        memory = {"peak_memory_bytes": ending.peak_memory_bytes}
        return result.model_copy(update={"cpu_time_s": cpu_time_s} | memory)


def _lost(ending: RunResult) -> CaseResult:
    """Return the result of a case if each run of it loses the program's or the grader's slot."""
    if ending.ended_its_slot:
        message = "the program ended its slot each time it was run"
        return CaseResult(status=Status.RUNTIME_ERROR, message=message)
    message = "the slot that compares was lost each time"
    return CaseResult(status=Status.UNGRADABLE, message=message)


def _ended_by_limit(grader: RunResult) -> str:
    """Return the resource used up by a grader, or "" if the grader ended normally."""
    if grader.out_of_memory:
        return "memory"
    if grader.out_of_output:
        return "output"
    if grader.out_of_time or grader.exit_code < 0:
        return "time"
    return "" if grader.exit_code == 0 else "of something: the grader failed"
