"""Budgets of a run: what a workflow may use, and how long its instruments may take."""

from dataclasses import dataclass, field
from typing import Final, Self

from pydantic import Field, model_validator

from assay_reward.workflows.operators.support.faults import FaultKind, WorkflowFault
from assay_shared.settings.run_file import Config

#: The most characters of a value with its replies, as a multiple of `text_chars`.
_WITH_REPLIES: Final = 4


class RunBudgets(Config, strict=True):
    """Limits of one run of a workflow.

    A workflow that needs more than `calls`, `programs`, `tokens`, `depth` or `steps` is at fault.
    These limits do not depend on the speed of a machine. `time_s` is for the instruments: a run
    that keeps the other limits ends in time if each call takes at most `call_s`. So a run out of
    time has slow instruments, and its sample has no score.
    """

    #: Calls of the executor. A repeated request after a bad reply is not a call of the workflow.
    calls: int = Field(default=16, ge=1, le=1024)
    #: Programs run in the sandbox; the public tests of one program count as one.
    programs: int = Field(default=8, ge=0, le=1024)
    #: Tokens of all prompts and usable replies.
    tokens: int = Field(default=50_000, ge=1, le=10_000_000)
    #: The longest chain of calls and programs of which each waits for the one before.
    depth: int = Field(default=8, ge=1, le=1024)
    #: Calls and programs of one run in flight; further branches wait.
    parallel: int = Field(default=8, ge=1, le=256)
    #: Evaluated parts of the tree, which bounds loops without calls.
    steps: int = Field(default=10_000, ge=1, le=1_000_000)
    #: Characters of the workflow and the problem in a value, and in a prompt's inserted texts
    #: together; characters of a reply.
    text_chars: int = Field(default=32_768, ge=64, le=1_000_000)
    #: Items of a list.
    items: int = Field(default=256, ge=1, le=10_000)
    #: The most tokens of a reply.
    reply_tokens: int = Field(default=1024, ge=1, le=65_536)
    #: Seconds of a call on a healthy executor, and the time limit of a program in the sandbox.
    call_s: float = Field(default=8.0, gt=0, le=600)
    #: Seconds of the whole run.
    time_s: float = Field(default=90.0, gt=0, le=3600)

    @model_validator(mode="after")
    def _fits_in_time(self) -> Self:
        """Refuse budgets that a workflow could keep and still run out of time."""
        least_s = self.longest_s
        if self.time_s < least_s:
            raise ValueError(
                f"time_s is {self.time_s:g}, but a workflow within the other budgets may take "
                f"{least_s:g} s: depth x call_s, and (calls + programs) x call_s / parallel more; "
                "raise time_s, or lower the other budgets"
            )
        return self

    @property
    def longest_text(self) -> int:
        """Characters of a value with its replies; longer replies are shortened there."""
        return _WITH_REPLIES * self.text_chars

    @property
    def longest_s(self) -> float:
        """The seconds of the slowest order in which a run's calls can follow each other."""
        return self.call_s * (self.depth + (self.calls + self.programs) / self.parallel)


@dataclass
class RunUsage:
    """What a run has used so far. `operators` counts the calls of each operator by name."""

    budgets: RunBudgets
    calls: int = 0
    programs: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    #: Of these tokens, those of retries inside operators.
    retry_tokens: int = 0
    depth: int = 0
    steps: int = 0
    operator_cost: float = 0.0
    sandbox_cpu_s: float = 0.0
    operators: dict[str, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.reply_tokens

    def begin_calls(self, number: int, depth: int) -> None:
        """Charge calls of the executor that begin together at this place of a chain.

        Raises:
            WorkflowFault: the budget is spent; none of them is charged.
        """
        self._check(FaultKind.CALLS, self.calls + number, self.budgets.calls)
        self._reach(depth)
        self.calls += number

    def begin_program(self, depth: int) -> None:
        """Charge a program at this place of a chain; errors as in `begin_calls`."""
        self._check(FaultKind.PROGRAMS, self.programs + 1, self.budgets.programs)
        self._reach(depth)
        self.programs += 1

    def end_call(self, prompt_tokens: int, reply_tokens: int, *, is_retry: bool = False) -> None:
        """Charge the tokens of a usable reply; a retry never spends the budget.

        They are known only now, so a run exceeds the budget by the calls in flight at most. The sum
        is the same in every order of the replies, and so is the finding.

        Raises:
            WorkflowFault: the budget is spent.
        """
        self.prompt_tokens += prompt_tokens
        self.reply_tokens += reply_tokens
        if is_retry:
            self.retry_tokens += prompt_tokens + reply_tokens
        self._check(FaultKind.TOKENS, self.tokens - self.retry_tokens, self.budgets.tokens)

    def take_steps(self, number: int = 1) -> None:
        """Charge evaluated parts of the tree; errors as in `begin_calls`."""
        self._check(FaultKind.STEPS, self.steps + number, self.budgets.steps)
        self.steps += number

    def check_text(self, num_chars: int) -> None:
        """Raise WorkflowFault for a value of more characters of the workflow than allowed."""
        if num_chars > self.budgets.text_chars:
            raise WorkflowFault(
                FaultKind.TEXT,
                f"a text of {num_chars} characters; at most {self.budgets.text_chars} are allowed",
            )

    def _reach(self, depth: int) -> None:
        self._check(FaultKind.DEPTH, depth, self.budgets.depth)
        self.depth = max(self.depth, depth)

    def _check(self, kind: FaultKind, number: int, most: int) -> None:
        if number > most:
            raise WorkflowFault(kind, f"the budget of {most} {_UNITS[kind]} is spent")


_UNITS = {
    FaultKind.CALLS: "calls of the executor",
    FaultKind.PROGRAMS: "programs",
    FaultKind.TOKENS: "tokens",
    FaultKind.DEPTH: "calls one after another",
    FaultKind.STEPS: "evaluated steps",
}
