"""A run in progress: its instruments, budgets, seeds and trace; and the context of each call."""

import asyncio
import hashlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from assay_reward.workflows.execution.budgets import RunBudgets, RunUsage
from assay_reward.workflows.execution.executor import (
    OperatorQuestion,
    OperatorReply,
    WorkflowExecutor,
)
from assay_reward.workflows.execution.trace import OpenTrace, RunTrace, TraceStatus
from assay_reward.workflows.operators.support.faults import WorkflowFault
from assay_reward.workflows.operators.support.prompt_files import OperatorPrompt
from assay_reward.workflows.operators.support.public_problem import PublicProblem
from assay_reward.workflows.operators.support.texts import (
    ReplyText,
    fitted,
    num_own,
    shortened_reply,
)
from assay_shared.errors import AssayError, ExecutorFault, SandboxFault
from assay_shared.interfaces import Sandbox
from assay_shared.runtime.gather import gather
from assay_shared.telemetry.tracing import span
from assay_shared.text.blank import says_nothing
from assay_shared.types import (
    ExecutionRequest,
    ExecutionResult,
    Limits,
    Status,
    TestReport,
    TestRequest,
)

_OUTPUT_BYTES = 2**16
_CPU_S = 5.0
#: Public tests that one call runs.
_MAX_CASES = 8


@dataclass
class RunSession:
    """What all calls of a run share. The same seed gives the same requests."""

    problem: PublicProblem
    executor: WorkflowExecutor
    sandbox: Sandbox
    usage: RunUsage
    seed: int
    deadline: float
    #: Retries in each call of an operator, see `retries_within`.
    retries: int = 0
    trace: RunTrace = field(default_factory=RunTrace)
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.budgets.parallel)

    @property
    def budgets(self) -> RunBudgets:
        return self.usage.budgets

    def deadline_of_loop(self) -> float:
        """Return the deadline by the clock of the running event loop."""
        return asyncio.get_running_loop().time() + self.deadline - time.monotonic()

    async def reply(self, prompt: str, temperature: float, seed: int) -> OperatorReply:
        """Return the executor's reply, within the places of the run.

        Raises:
            ExecutorFault: the reply is empty.
        """
        call = OperatorQuestion(prompt, temperature, seed, self.budgets.reply_tokens, self.deadline)
        async with self._places:
            found = await self.executor.reply(call)
        if says_nothing(found.text):
            raise ExecutorFault("an empty reply", service="executor")
        return found

    async def execute(self, code: str) -> ExecutionResult:
        """Return the run of a program. Raises SandboxFault if the sandbox failed."""
        wall_s = self.budgets.call_s
        limits = Limits(
            cpu_time_s=min(_CPU_S, wall_s), wall_time_s=wall_s, output_bytes=_OUTPUT_BYTES
        )
        async with self._places:
            result = await self.sandbox.execute(ExecutionRequest(code=code, limits=limits))
        if result.status is Status.SANDBOX_ERROR:
            raise SandboxFault(f"the sandbox failed on a program: {result.message}")
        self.usage.sandbox_cpu_s += result.cpu_time_s
        return result

    async def test(self, code: str) -> TestReport:
        """Return the public tests' report on a program. Raises SandboxFault if one failed.

        All cases together take at most `call_s`. Otherwise a slow program of the workflow could use
        up the time of the instruments, and its sample would have no score.
        """
        cases = self.problem.cases[:_MAX_CASES]
        each_s = self.budgets.call_s / len(cases)
        own = self.problem.limits
        limits = own.model_copy(
            update={
                "cpu_time_s": min(own.cpu_time_s, each_s),
                "wall_time_s": min(own.wall_time_s, each_s),
            }
        )
        request = TestRequest(
            code=self.problem.program(code), cases=cases, limits=limits, stop_on_first_failure=True
        )
        async with self._places:
            report = await self.sandbox.test(request)
        if any(case.status is Status.SANDBOX_ERROR for case in report.cases):
            raise SandboxFault("the sandbox failed on a public test")
        self.usage.sandbox_cpu_s += sum(case.cpu_time_s for case in report.cases)
        return report

    @contextmanager
    def part(self, parent: OpenTrace, kind: str, name: str, line: int = 0) -> Iterator[OpenTrace]:
        """Trace a part of the run, also in OpenTelemetry; it ends with the block."""
        part = self.trace.open(parent, kind, name, line)
        with span(f"workflow.{kind}", part=name, line=line) as telemetry:
            try:
                yield part
            except WorkflowFault as fault:
                part.notes.append(fault.message)
                part.end(TraceStatus.FAULT)
                raise
            except AssayError as error:
                part.notes.append(str(error))
                part.end(TraceStatus.FAILED)
                raise
            part.end()
            telemetry.note(tokens=part.tokens, money=part.money, model=part.model)

    def random(self, path: str) -> random.Random:
        """Return a generator for a place of the run, independent of the order of events."""
        return random.Random(f"{self.seed}/{path}")

    def seed_of(self, path: str) -> int:
        """Return the seed of a call at a place of the run."""
        digest = hashlib.sha256(f"{self.seed}/{path}".encode()).digest()
        return int.from_bytes(digest[:4]) & 0x7FFFFFFF


@dataclass
class RunPlace:
    """A place in the run: its path, its part of the trace, and the chain of calls before it."""

    path: str
    part: OpenTrace
    depth: int = 0

    def inside(self, step: str, part: OpenTrace | None = None) -> "RunPlace":
        return replace(self, path=f"{self.path}/{step}", part=part or self.part)


class CallContext:
    """The context of one operator call; implements `OperatorContext`.

    `place` moves on along the chain with each call of the model or the sandbox.
    """

    def __init__(self, session: RunSession, place: RunPlace, most_retries: int) -> None:
        self._session = session
        self.place = place
        self._num_asked = 0
        self._num_retries = 0
        self._most_retries = most_retries
        self.rng = session.random(place.path)

    @property
    def problem(self) -> PublicProblem:
        return self._session.problem

    async def ask(
        self, prompt: OperatorPrompt, values: Mapping[str, str], *, temperature: float = 0.0
    ) -> str:
        """Implement `OperatorContext.ask`."""
        return (await self.ask_each(prompt, [values], temperature=temperature))[0]

    async def ask_each(
        self, prompt: OperatorPrompt, values: Sequence[Mapping[str, str]], *, temperature: float
    ) -> list[str]:
        """Implement `OperatorContext.ask_each`: one step of the chain, a call for each prompt."""
        self.place.depth += 1
        texts = [self._fitted(one) for one in values]
        self._session.usage.begin_calls(len(values), self.place.depth)
        first = self._num_asked + 1
        self._num_asked += len(values)
        seeds = [
            self._session.seed_of(f"{self.place.path}/{first + number}")
            for number in range(len(values))
        ]
        return await gather(
            self._ask(prompt, prompt.filled(one), temperature, seed)
            for one, seed in zip(texts, seeds, strict=True)
        )

    async def _ask(self, prompt: OperatorPrompt, text: str, temperature: float, seed: int) -> str:
        session = self._session
        with session.part(self.place.part, "model", prompt.name) as part:
            part.prompt_digest, part.prompt = prompt.digest, text
            found = await session.reply(text, temperature, seed)
            part.reply, part.model = found.text, found.model
            part.tokens, part.money = found.prompt_tokens + found.reply_tokens, found.money
            if found.attempts > 1:
                part.notes.append(f"{found.attempts} attempts")
            if found.is_estimated:
                part.notes.append(
                    "the tokens are an estimate: the endpoint gave none, or wrong ones"
                )
            session.usage.end_call(
                found.prompt_tokens, found.reply_tokens, is_retry=self._num_retries > 0
            )
            most = session.budgets.text_chars
            if len(found.text) > most:
                part.notes.append(f"a reply of {len(found.text)} characters, cut to {most}")
            return shortened_reply(ReplyText(found.text), most)

    def _fitted(self, values: Mapping[str, str]) -> Mapping[str, str]:
        """Return the texts of a prompt; long replies in them are shortened.

        Raises:
            WorkflowFault: the workflow's own characters are too many.
        """
        budgets = self._session.budgets
        self._session.usage.check_text(sum(map(num_own, values.values())))
        if sum(map(len, values.values())) <= budgets.longest_text:
            return values
        self.note("replies are shortened in the prompt")
        return dict(zip(values, fitted(values.values(), budgets.longest_text), strict=True))

    async def run_program(self, code: str) -> ExecutionResult:
        """Implement `OperatorContext.run_program`."""
        self._begin_program(code)
        with self._session.part(self.place.part, "program", "python") as part:
            part.prompt = code
            result = await self._session.execute(code)
            part.reply = result.stdout or result.stderr
            part.sandbox_cpu_s = result.cpu_time_s
            part.notes.append(result.status.value)
            return result

    async def test_program(self, code: str) -> TestReport:
        """Implement `OperatorContext.test_program`."""
        self._begin_program(code)
        with self._session.part(self.place.part, "tests", "public tests") as part:
            part.prompt = code
            report = await self._session.test(code)
            part.sandbox_cpu_s = sum(case.cpu_time_s for case in report.cases)
            part.notes.append(f"{report.num_passed} of {len(report.cases)} public tests passed")
            return report

    def retry(self) -> bool:
        """Implement `OperatorContext.retry`."""
        allowed = min(self._most_retries, self._session.retries)
        if self._num_retries < allowed:
            self._num_retries += 1
            return True
        if allowed < self._most_retries:
            self.note(f"the budgets hold {allowed} retries of {self._most_retries}")
        return False

    def note(self, text: str) -> None:
        """Implement `OperatorContext.note`."""
        self.place.part.notes.append(text)

    def _begin_program(self, code: str) -> None:
        self.place.depth += 1
        self._session.usage.check_text(num_own(code))
        self._session.usage.begin_program(self.place.depth)
