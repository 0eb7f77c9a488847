"""A program and its grader: two slots joined by a socket, each with records of its own."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from assay_sandbox.run import Ending, Plan, Run
from assay_shared.together import together

Play = Callable[[Plan, Callable[[Run, bytes], None]], Awaitable[Ending]]


@dataclass(frozen=True)
class Pair:
    """Runs plans two by two. A grader's slot is only asked for when the program has its own."""

    play_program: Play
    play_grader: Play

    async def play(
        self,
        program: Plan,
        grader: Plan,
        on_program: Callable[[Run, bytes], None],
        on_grader: Callable[[Run, bytes], None],
    ) -> tuple[Ending, Ending | None]:
        """How both ended; None for a grader whose program had ended before it could begin.

        Raises:
            SlotLost: one of the slots was lost by what may be no doing of the program.
            SandboxFault: no slot takes a program.
        """
        program_end, grader_end = socket.socketpair()
        begun, ended = asyncio.Event(), asyncio.Event()

        def take_program(run: Run, line: bytes) -> None:
            program_end.close()  # else the grader would not notice when the program is gone
            begun.set()
            on_program(run, line)

        def take_grader(run: Run, line: bytes) -> None:
            grader_end.close()
            on_grader(run, line)

        async def run_program() -> Ending:
            try:
                plan = replace(program, channel=program_end.fileno())
                return await self.play_program(plan, take_program)
            finally:
                program_end.close()
                ended.set()
                begun.set()

        async def run_grader() -> Ending | None:
            try:
                await begun.wait()
                if ended.is_set():
                    return None
                plan = replace(grader, channel=grader_end.fileno())
                return await self.play_grader(plan, take_grader)
            finally:
                grader_end.close()

        works: list[Ending | None] = await together([run_program(), run_grader()])
        first, second = works
        assert first is not None
        return first, second
