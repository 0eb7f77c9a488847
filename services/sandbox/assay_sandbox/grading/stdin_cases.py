"""Stdin cases: runs a program once for each case and judges its output."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay_sandbox.execution.program import Execution, Program, data_files, encode
from assay_sandbox.execution.run import RunResult
from assay_sandbox.execution.runner import Runner
from assay_sandbox.grading.patience import first_skipped, max_timeouts, skipped
from assay_sandbox.slot.grading.output import same_output
from assay_shared.errors import InvalidInput, SandboxFault
from assay_shared.runtime.gather import gather
from assay_shared.types import CaseResult, Comparison, Limits, Status, StdinCase

#: A case's verdict and run.
Judged = tuple[CaseResult, Execution]
_CHECKER_FILES = ("input", "output", "answer")
_WRONG = {1, 2}
#: Larger texts are compared in a slot. The first limit is by words and lines, the other by numbers.
_MAX_HERE_BYTES, _MAX_NUMBERS_BYTES = 2**18, 2**15
_COMPARE_LIMITS = Limits(cpu_time_s=20.0, wall_time_s=60.0, memory_bytes=2 * 2**30)


@dataclass(frozen=True)
class ReadyChecker:
    """A checker's program and its runner."""

    program: Program
    runner: Runner

    async def check(self, case: StdinCase, stdout: bytes) -> tuple[Status, str]:
        """Return the checker's verdict on `stdout` and its message; ungradable without a verdict.

        A checker raising an error on `stdout` means a wrong answer if it accepts the expected
        output: it works, but could not read `stdout`. Otherwise it decides nothing, as after a
        limit, a signal or another exit code.

        Raises:
            InvalidInput: the checker does not parse.
            SandboxFault: the checker could not be run.
        """
        run = await self._run_on(case, stdout)
        said = (run.ending.stdout + run.ending.stderr)[:200].decode(errors="replace").strip()
        if run.status is Status.ACCEPTED:
            return Status.ACCEPTED, said
        if run.status is Status.SYNTAX_ERROR:
            raise InvalidInput(f"the checker does not parse: {run.message}", field="checker.code")
        if run.status is Status.RUNTIME_ERROR and run.ending.exit_code in _WRONG:
            by_itself = run.message == f"exit code {run.ending.exit_code}"
            if by_itself or await self._accepts_the_expected(case):
                return Status.WRONG_ANSWER, said
        reason = f"the checker decides nothing: {run.status}, {run.message}: {said}"
        return Status.UNGRADABLE, reason

    async def _accepts_the_expected(self, case: StdinCase) -> bool:
        run = await self._run_on(case, encode(case.expected_stdout))
        return run.status is Status.ACCEPTED

    async def _run_on(self, case: StdinCase, stdout: bytes) -> Execution:
        contents = (encode(case.stdin), stdout, encode(case.expected_stdout))
        files = data_files(dict(zip(_CHECKER_FILES, contents, strict=True)))
        ready = replace(
            self.program, files={**self.program.files, **files}, arguments=_CHECKER_FILES
        )
        return await self.runner.run(ready)


@dataclass(frozen=True)
class StdinJudge:
    """Runs a program on cases.

    Args:
        checker: decides in place of a case's `compare`.
        num_slots: number of runs at once.
        grader: compares large outputs in a slot.
    """

    runner: Runner
    program: Program
    checker: ReadyChecker | None
    num_slots: int
    grader: Runner

    async def judge(self, cases: Sequence[StdinCase], *, stop: bool) -> list[Judged]:
        """Run and judge the cases, and return the results in order; with `stop`, up to a failure.

        Raises:
            InvalidInput: the checker does not parse.
            SandboxFault: the program, the checker or the comparison could not be run.
        """
        if stop:
            return await self._judge_until_wrong(cases)
        room = asyncio.Semaphore(self.num_slots)
        limits = self.program.limits
        timed_out: list[int] = []

        async def in_turn(index: int, case: StdinCase) -> Judged:
            async with room:
                if sum(earlier < index for earlier in timed_out) >= max_timeouts(limits):
                    return _not_run(limits)
                judged = await self._judge_one(case)
                if judged[0].status is Status.TIME_LIMIT:
                    timed_out.append(index)
                return judged

        judged = await gather(in_turn(index, case) for index, case in enumerate(cases))
        end = first_skipped([result for result, _ in judged], limits)
        return judged[:end] + [_not_run(limits)] * (len(judged) - end)

    async def _judge_until_wrong(self, cases: Sequence[StdinCase]) -> list[Judged]:
        judged: list[Judged] = []
        for case in cases:
            judged.append(await self._judge_one(case))
            if judged[-1][0].status is not Status.ACCEPTED:
                break
        return judged

    async def _judge_one(self, case: StdinCase) -> Judged:
        run = await self.runner.run(self.program, case.stdin)
        status, message = run.status, run.message
        if status is Status.ACCEPTED:
            status, message = await self._compare(case, run.ending.stdout)
        result = CaseResult(
            status=status,
            message=message,
            wall_time_s=run.ending.wall_time_s,
            cpu_time_s=run.ending.cpu_time_s,
            peak_memory_bytes=run.ending.peak_memory_bytes,
        )
        return result, run

    async def _compare(self, case: StdinCase, stdout: bytes) -> tuple[Status, str]:
        if self.checker is not None:
            return await self.checker.check(case, stdout)
        verdict = await self._same_output(case, stdout)
        if verdict is None:
            return Status.UNGRADABLE, "comparing the output took too much time or memory"
        if verdict:
            return Status.ACCEPTED, ""
        return Status.WRONG_ANSWER, f"printed {stdout[:200].decode(errors='replace')!r}"

    async def _same_output(self, case: StdinCase, stdout: bytes) -> bool | None:
        """Return True if the output is right; None if a limit ended the comparison."""
        by_numbers = case.compare in (Comparison.NUMBERS, Comparison.LOOSE)
        limit = _MAX_NUMBERS_BYTES if by_numbers else _MAX_HERE_BYTES
        if len(stdout) + len(case.expected_stdout) <= limit:
            # With surrogateescape, bytes that are not UTF-8 equal no text.
            got = stdout.decode(errors="surrogateescape")
            return same_output(got, case.expected_stdout, case.compare, case.tolerance)
        if case.compare is Comparison.EXACT:
            return stdout == encode(case.expected_stdout)
        plan = replace(self.program, files={}, text=None, limits=_COMPARE_LIMITS).plan()
        question = {
            "part": "grader",
            "got": stdout,
            "expected": case.expected_stdout,
            "compare": str(case.compare),
            "tolerance": case.tolerance,
        }
        said: list[bytes] = []
        plan = replace(plan, body=plan.body | question | {"command": []})
        ending = await self.grader.play(plan, lambda _, line: said.append(line))
        if b"begun" not in said:
            raise SandboxFault(f"a grader never began: {ending.stderr.decode(errors='replace')}")
        return b"passed 0" in said if len(said) > 1 else None


def _not_run(limits: Limits) -> Judged:
    """Return the result of a skipped case and, in place of its run, one without any output."""
    result = skipped(limits)
    ending = RunResult(
        exit_code=0,
        stdout=b"",
        stderr=b"",
        cpu_time_s=0.0,
        wall_time_s=0.0,
        idle_time_s=0.0,
        clean_time_s=0.0,
        peak_memory_bytes=0,
        out_of_time=True,
        out_of_cpu=False,
        out_of_output=False,
        out_of_memory=False,
    )
    return result, Execution(ending, Status.TIME_LIMIT, result.message)
