"""The interface between the chain and its providers."""

from dataclasses import dataclass, field
from typing import Protocol

from assay_judge.config import Price
from assay_judge.forms.forms import JudgePrompt, ParsedReply
from assay_judge.state.ledger import Usage, money
from assay_shared.types import Cost, JudgeForm, JudgeRequest


@dataclass
class Bill:
    """The cost of a judgement so far, failed requests included."""

    tokens: int = 0
    estimated_tokens: int = 0
    money: float = 0.0

    def add(self, usage: Usage, price: Price) -> None:
        self.tokens += usage.prompt_tokens + usage.completion_tokens
        self.estimated_tokens += usage.estimated_tokens
        self.money += money(usage, price)

    @property
    def cost(self) -> Cost:
        return Cost(
            judge_tokens=self.tokens, estimated_tokens=self.estimated_tokens, money=self.money
        )


@dataclass(frozen=True)
class JudgeCall:
    """The caller, run, deadline (`time.monotonic`) and bill of a judgement.

    `vote` numbers the replies to the same prompt. A request shared by several callers is on the
    bill of the first caller.
    """

    caller: str
    run: str
    deadline: float
    vote: int = 0
    bill: Bill = field(default_factory=Bill)


class Provider(Protocol):
    """A judge: a model or a rule."""

    name: str
    forms: frozenset[JudgeForm]
    #: True if the provider reads the prompt, false if it reads only the request.
    has_prompt: bool

    @property
    def is_open(self) -> bool:
        """True while the provider's circuit is open: it is not asked now."""
        ...

    async def find(
        self, request: JudgeRequest, index: int, ask: JudgePrompt, asking: JudgeCall
    ) -> ParsedReply:
        """Return a finding on the group's prompt number `index`.

        Raises:
            AssayError: the provider gave no finding, or an unreadable reply.
        """
        ...

    async def open(self) -> None:
        """Get ready; called once before the first decision."""
        ...

    async def close(self) -> None:
        """Release the resources taken by `open`."""
        ...
