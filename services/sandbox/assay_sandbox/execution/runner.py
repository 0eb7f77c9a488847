"""Runs plans and programs in the slots of one profile."""

import glob
from collections.abc import Callable
from dataclasses import dataclass

from assay_sandbox.execution.isolation import Slots
from assay_sandbox.execution.program import Execution, Program, Records, status_of
from assay_sandbox.execution.run import RunningProgram, RunResult, RunSpec
from assay_sandbox.metrics import SandboxMetrics
from assay_shared.types import Status

#: Gets the running program and a record of its slot.
OnRecord = Callable[[RunningProgram, bytes], None]


@dataclass(frozen=True)
class Runner:
    """The slots of one profile, as seen by a request.

    Args:
        language: language counted in the metrics; empty for compilers and graders, which are not
            counted.
        needs_permit: false for a grader serving a program that holds a permit already.
    """

    slots: Slots
    metrics: SandboxMetrics
    profile: str
    language: str = ""
    needs_permit: bool = True

    async def play(self, plan: RunSpec, on_record: OnRecord) -> RunResult:
        """Run a plan in the next free slot and return the program's end.

        Raises:
            InvalidInput: this host lacks the profile.
            Saturated: no permit came free in time.
            SandboxFault: the slot was lost under the program, or no slot takes it.
        """
        if not self.language:
            return await self.slots.play(
                self.profile, plan, on_record, needs_permit=self.needs_permit
            )
        waited = self.metrics.wait_s.observe
        ending = await self.slots.play(self.profile, plan, on_record, waited)
        self.metrics.run_s.labels(self.language).observe(ending.wall_time_s)
        self.metrics.clean_s.observe(ending.clean_time_s)
        return ending

    async def run(
        self, program: Program, stdin: str = "", fetch: tuple[str, ...] = ()
    ) -> Execution:
        """Run a program once, pick up the files named in `fetch`, and return its execution.

        Raises:
            SandboxFault: the program never began; and the errors of `play`.
        """
        records = Records()
        plan = program.plan(stdin, fetch=tuple(map(glob.escape, fetch)))
        ending = await self.play(plan, lambda _, line: records.take(line))
        status, message = status_of(ending, records, program)
        status = status or Status.ACCEPTED
        self.metrics.programs.labels(self.language, status).inc()
        return Execution(ending, status, message)
