"""A program and its grader: two slots joined by a socket, each with records of its own."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from assay_sandbox.execution.run import RunningProgram, RunResult, RunSpec
from assay_shared.runtime.gather import gather

Play = Callable[[RunSpec, Callable[[RunningProgram, bytes], None]], Awaitable[RunResult]]


class JointRest:
    """The permit of a program, which is lent to others only while its grader computes nothing too.

    A grader that computes for long would else take a core beside those that permits stand for.
    """

    def __init__(self) -> None:
        self._lend: Callable[[bool], None] | None = None
        self._program: RunningProgram | None = None
        self._is_program_idle = False
        #: No grader is there yet.
        self._is_grader_idle = True

    def join_program(self, run: RunningProgram) -> None:
        """Take part in what a program says of its rests; it may have been put in another slot."""
        if run is not self._program:
            self._program, self._lend = run, run.on_rest
            run.on_rest = self._rest_program

    def join_grader(self, run: RunningProgram) -> None:
        if run.on_rest is None:
            run.on_rest = self.rest_grader

    def _rest_program(self, is_idle: bool) -> None:
        self._is_program_idle = is_idle
        self._settle()

    def rest_grader(self, is_idle: bool) -> None:
        self._is_grader_idle = is_idle
        self._settle()

    def _settle(self) -> None:
        if self._lend is not None:
            self._lend(self._is_program_idle and self._is_grader_idle)

    def leave_program(self) -> None:
        """Lend nothing more: the program has ended, and its permit with it."""
        self._lend = None


@dataclass(frozen=True)
class SlotPair:
    """Runs plans two by two. A grader's slot is only asked for when the program has its own."""

    play_program: Play
    play_grader: Play

    async def play(
        self,
        program: RunSpec,
        grader: RunSpec,
        on_program: Callable[[RunningProgram, bytes], None],
        on_grader: Callable[[RunningProgram, bytes], None],
    ) -> tuple[RunResult, RunResult | None]:
        """Return how both ended; None for a grader whose program had ended before it could begin.

        Raises:
            SandboxFault: no slot takes a program, or one was lost (SlotLost), maybe by others.
        """
        program_end, grader_end = socket.socketpair()
        begun: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        joint = JointRest()

        def take_program(run: RunningProgram, line: bytes) -> None:
            program_end.close()  # else the grader would not notice when the program is gone
            _set(begun, True)
            joint.join_program(run)
            on_program(run, line)

        def take_grader(run: RunningProgram, line: bytes) -> None:
            grader_end.close()
            joint.join_grader(run)
            on_grader(run, line)

        async def run_program() -> RunResult:
            try:
                plan = replace(program, channel=program_end.fileno())
                return await self.play_program(plan, take_program)
            finally:
                joint.leave_program()
                program_end.close()
                _set(begun, False)

        async def run_grader() -> RunResult | None:
            try:
                if not await begun:
                    return None
                joint.rest_grader(False)  # it begins as busy, and starting it is work too
                plan = replace(grader, channel=grader_end.fileno())
                return await self.play_grader(plan, take_grader)
            finally:
                joint.rest_grader(True)
                grader_end.close()

        ends: list[RunResult | None] = await gather([run_program(), run_grader()])
        assert ends[0] is not None
        return ends[0], ends[1]


def _set(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)
