"""What a run needs of an executor: a reply to a prompt, or an error."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class OperatorQuestion:
    """One call of the executor's model."""

    prompt: str
    temperature: float
    seed: int
    max_tokens: int
    #: `time.monotonic` of the end of the run's time.
    deadline: float


@dataclass(frozen=True, slots=True)
class OperatorReply:
    """A usable reply, with its own tokens. `money` includes the attempts before it."""

    text: str
    prompt_tokens: int
    reply_tokens: int
    money: float = 0.0
    model: str = ""
    attempts: int = 1
    #: True if the endpoint gave no token counts, or impossible ones.
    is_estimated: bool = False


class WorkflowExecutor(Protocol):
    """A model that carries out a workflow's calls.

    All calls of a run go to one model. `fallback` is the executor for a whole new run after this
    one failed; None if there is no other. A new run needs a new executor.
    """

    @property
    def name(self) -> str: ...

    @property
    def money(self) -> float:
        """The bill so far: failed requests, and the executors before this one, are on it."""
        ...

    @property
    def fallback(self) -> "WorkflowExecutor | None": ...

    async def reply(self, call: OperatorQuestion) -> OperatorReply:
        """Return a usable reply, which is never empty.

        Raises:
            AssayError: there is none, after all attempts.
        """
        ...
