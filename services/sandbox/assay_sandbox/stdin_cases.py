"""Stdin cases: each a run of its own, judged by what it printed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from assay_sandbox.output import same_output
from assay_sandbox.program import Execution, Program, data_files, encode
from assay_shared.errors import SandboxFault
from assay_shared.together import together
from assay_shared.types import CaseResult, Status, StdinCase

#: Runs a program on an input, and fetches files.
RunOnce = Callable[[Program, str, tuple[str, ...]], Awaitable[Execution]]
#: A case's verdict, and the run that it is about.
Judged = tuple[CaseResult, Execution]
_CHECKER_FILES = ("input", "output", "answer")
_WRONG = {1, 2}


@dataclass(frozen=True)
class ReadyChecker:
    """A checker's program, and what runs it."""

    program: Program
    run: RunOnce

    async def check(self, case: StdinCase, stdout: bytes) -> tuple[Status, str]:
        """Whether it says that `stdout` is right.

        Raises:
            SandboxFault: it decides nothing.
        """
        contents = (encode(case.stdin), stdout, encode(case.expected_stdout))
        files = data_files(dict(zip(_CHECKER_FILES, contents, strict=True)))
        ready = replace(
            self.program, files={**self.program.files, **files}, arguments=_CHECKER_FILES
        )
        run = await self.run(ready, "", ())
        said = (run.ending.stdout + run.ending.stderr)[:200].decode(errors="replace").strip()
        if run.status is Status.ACCEPTED:
            return Status.ACCEPTED, said
        if run.status is Status.RUNTIME_ERROR and run.ending.exit_code in _WRONG:
            return Status.WRONG_ANSWER, said
        raise SandboxFault(f"the checker decides nothing: {run.status}, {run.message}: {said}")


@dataclass(frozen=True)
class StdinJudge:
    """Runs a program on cases.

    Args:
        checker: decides in place of a case's `compare`.
        num_slots: runs at once.
    """

    run: RunOnce
    program: Program
    checker: ReadyChecker | None
    num_slots: int

    async def judge(self, cases: Sequence[StdinCase], *, stop: bool) -> list[Judged]:
        """The results, in order, up to a stop.

        Raises:
            SandboxFault: a run that was not the program's fault, or a checker that decides nothing.
        """
        if stop:
            return await self._judge_until_wrong(cases)
        room = asyncio.Semaphore(self.num_slots)

        async def in_turn(case: StdinCase) -> Judged:
            async with room:
                return await self._judge_one(case)

        return await together(in_turn(case) for case in cases)

    async def _judge_until_wrong(self, cases: Sequence[StdinCase]) -> list[Judged]:
        judged: list[Judged] = []
        for case in cases:
            judged.append(await self._judge_one(case))
            if judged[-1][0].status is not Status.ACCEPTED:
                break
        return judged

    async def _judge_one(self, case: StdinCase) -> Judged:
        run = await self.run(self.program, case.stdin, ())
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
        # What is no text stays unlike every text.
        if same_output(stdout.decode(errors="surrogateescape"), case):
            return Status.ACCEPTED, ""
        return Status.WRONG_ANSWER, f"printed {stdout[:200].decode(errors='replace')!r}"
