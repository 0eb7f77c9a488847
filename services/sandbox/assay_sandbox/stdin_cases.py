"""Stdin cases: each a run of its own, judged by what it printed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from assay_sandbox.output import same_output
from assay_sandbox.program import Program, data_files, encode
from assay_sandbox.run import Ending
from assay_shared.errors import SandboxFault
from assay_shared.together import together
from assay_shared.types import CaseResult, Status, StdinCase

#: Runs a program on an input, and fetches files: how it ended, its status, and a word on it.
RunOnce = Callable[[Program, str, tuple[str, ...]], Awaitable[tuple[Ending, Status, str]]]
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
        ending, status, message = await self.run(ready, "", ())
        said = (ending.stdout + ending.stderr)[:200].decode(errors="replace").strip()
        if status is Status.ACCEPTED:
            return Status.ACCEPTED, said
        if status is Status.RUNTIME_ERROR and ending.exit_code in _WRONG:
            return Status.WRONG_ANSWER, said
        raise SandboxFault(f"the checker decides nothing: {status}, {message}: {said}")


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

    async def judge(self, cases: Sequence[StdinCase], *, stop: bool) -> list[CaseResult]:
        """The results, in order; None as status for those after a stop.

        Raises:
            SandboxFault: a run that was not the program's fault, or a checker that decides nothing.
        """
        if stop:
            return await self._judge_until_wrong(cases)
        room = asyncio.Semaphore(self.num_slots)

        async def in_turn(case: StdinCase) -> CaseResult:
            async with room:
                return await self._judge_one(case)

        return await together(in_turn(case) for case in cases)

    async def _judge_until_wrong(self, cases: Sequence[StdinCase]) -> list[CaseResult]:
        results: list[CaseResult] = []
        for case in cases:
            results.append(await self._judge_one(case))
            if results[-1].status is not Status.ACCEPTED:
                break
        return results + [CaseResult(status=None)] * (len(cases) - len(results))

    async def _judge_one(self, case: StdinCase) -> CaseResult:
        ending, status, message = await self.run(self.program, case.stdin, ())
        if status is Status.ACCEPTED:
            status, message = await self._compare(case, ending.stdout)
        return CaseResult(
            status=status,
            message=message,
            wall_time_s=ending.wall_time_s,
            cpu_time_s=ending.cpu_time_s,
            peak_memory_bytes=ending.peak_memory_bytes,
        )

    async def _compare(self, case: StdinCase, stdout: bytes) -> tuple[Status, str]:
        if self.checker is not None:
            return await self.checker.check(case, stdout)
        # What is no text stays unlike every text.
        if same_output(stdout.decode(errors="surrogateescape"), case):
            return Status.ACCEPTED, ""
        return Status.WRONG_ANSWER, f"printed {stdout[:200].decode(errors='replace')!r}"
