"""The interface of operators: what they get, what they may use, and what they return."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from assay_reward.workflows.language.signatures import OperatorSignature
from assay_reward.workflows.operators.support.prompt_files import OperatorPrompt
from assay_reward.workflows.operators.support.public_problem import PublicProblem
from assay_shared.types import ExecutionResult, TestReport

#: A value of a workflow, other than a record.
Plain = str | bool | int | float | tuple[str, ...]
#: The result of an operator: the fields of its signature. A text is a `ReplyText` if it is the
#: executor's; every other text counts as the workflow's own.
Record = dict[str, Plain]
Arguments = Mapping[str, Plain]


class OperatorContext(Protocol):
    """What an operator may use. Each use is charged to the workflow's budgets and traced."""

    @property
    def problem(self) -> PublicProblem: ...

    @property
    def rng(self) -> random.Random:
        """A generator of this call alone: a repeated run has the same numbers."""
        ...

    async def ask(
        self, prompt: OperatorPrompt, values: Mapping[str, str], *, temperature: float = 0.0
    ) -> str:
        """Return the executor's reply, which is never empty.

        Raises:
            AssayError: the executor gave no usable reply; the sample has no score.
            WorkflowFault: a budget of the workflow is spent, or a text is too long.
        """
        ...

    async def ask_each(
        self, prompt: OperatorPrompt, values: Sequence[Mapping[str, str]], *, temperature: float
    ) -> list[str]:
        """Return the replies to prompts that are sent at the same time; errors as in `ask`."""
        ...

    async def run_program(self, code: str) -> ExecutionResult:
        """Return the run of a program in the sandbox; errors as in `ask`."""
        ...

    async def test_program(self, code: str) -> TestReport:
        """Return the report of the problem's public tests on a program; errors as in `ask`."""
        ...

    def retry(self) -> bool:
        """Begin a retry: a further request, and its program. Return False if none is left.

        Its number is known before the run, so a retry never spends the budgets of the workflow.
        """
        ...

    def note(self, text: str) -> None:
        """Add a remark to the call's trace."""
        ...


@dataclass(frozen=True)
class OperatorUse:
    """What one call uses at most without retries, and its most retries.

    A retry is one request and one program, one after the other.
    """

    calls: int = 0
    programs: int = 0
    retries: int = 0

    @property
    def depth(self) -> int:
        """The chain of a call: requests of one call are sent together."""
        return min(self.calls, 1) + self.programs


@dataclass(frozen=True)
class Operator:
    """A row of the table. `cost` is the declared price of a call; a plain answer costs 1."""

    signature: OperatorSignature
    description: str
    cost: float
    use: OperatorUse
    run: Callable[[OperatorContext, Arguments], Awaitable[Record]]


def text_in(arguments: Arguments, name: str) -> str:
    """Return a text argument; an argument that is not given is an empty text."""
    value = arguments.get(name, "")
    return value if isinstance(value, str) else str(value)


def texts_in(arguments: Arguments, name: str) -> tuple[str, ...]:
    """Return a list argument; a single text is a list of one."""
    value = arguments.get(name, ())
    return value if isinstance(value, tuple) else (str(value),)
