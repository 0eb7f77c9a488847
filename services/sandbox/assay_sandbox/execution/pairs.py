"""A program and its grader: two slots joined by a socket, each with its own records."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace

from assay_sandbox.execution.run import RunningProgram, RunResult, RunSpec
from assay_sandbox.execution.runner import OnRecord, Runner
from assay_shared.runtime.gather import gather


class JointRest:
    """A program's permit, lent to others only while both the program and its grader are idle.

    Otherwise a grader computing for long would take one more core than there are permits.
    """

    def __init__(self) -> None:
        self._lend: Callable[[bool], None] | None = None
        self._program: RunningProgram | None = None
        self._is_program_idle = False
        #: True until there is a grader.
        self._is_grader_idle = True

    def join_program(self, run: RunningProgram) -> None:
        """Follow the rests of a program. After a lost slot, `run` is its run in another slot."""
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
        """Stop lending: the program has ended, and so has its permit."""
        self._lend = None


@dataclass(frozen=True)
class SlotPair:
    """Runs plans in pairs. The grader asks for a slot only when the program has its own."""

    program: Runner
    grader: Runner

    async def play(
        self,
        program: RunSpec,
        grader: RunSpec,
        on_program: OnRecord,
        on_grader: OnRecord,
    ) -> tuple[RunResult, RunResult | None]:
        """Run both and return their ends. The grader's end is None if the program ended first.

        Raises:
            SandboxFault: no slot takes a program, or a slot was lost (SlotLost), maybe by others.
        """
        program_end, grader_end = socket.socketpair()
        begun: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        joint = JointRest()

        def take_program(run: RunningProgram, line: bytes) -> None:
            program_end.close()  # otherwise the grader would not notice the program's end
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
                return await self.program.play(plan, take_program)
            finally:
                joint.leave_program()
                program_end.close()
                _set(begun, False)

        async def run_grader() -> RunResult | None:
            try:
                if not await begun:
                    return None
                joint.rest_grader(False)  # starting a grader is work too: it counts as busy
                plan = replace(grader, channel=grader_end.fileno())
                return await self.grader.play(plan, take_grader)
            finally:
                joint.rest_grader(True)
                grader_end.close()

        ends: list[RunResult | None] = await gather([run_program(), run_grader()])
        assert ends[0] is not None
        return ends[0], ends[1]


def _set(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)
