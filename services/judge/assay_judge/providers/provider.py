"""The seam between the chain and what decides."""

from dataclasses import dataclass, field
from typing import Protocol

from assay_judge.config import Price
from assay_judge.forms.forms import JudgePrompt, ParsedReply
from assay_judge.state.ledger import Usage, money
from assay_shared.types import Cost, JudgeForm, JudgeRequest


@dataclass
class Bill:
    """What the requests of one judgement have cost so far, those in vain included."""

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
    """On whose behalf, and until when (`time.monotonic`); `vote` counts replies to the same ask.

    What is asked by several at once is on the bill of the first.
    """

    caller: str
    run: str
    deadline: float
    vote: int = 0
    bill: Bill = field(default_factory=Bill)


class Provider(Protocol):
    """One judge."""

    name: str
    forms: frozenset[JudgeForm]
    #: Whether it reads the ask's prompt, or only the request.
    has_prompt: bool

    @property
    def is_open(self) -> bool:
        """Whether its circuit is: it is left alone for now."""
        ...

    async def find(
        self, request: JudgeRequest, index: int, ask: JudgePrompt, asking: JudgeCall
    ) -> ParsedReply:
        """A finding on the group's `index`-th ask.

        Raises:
            AssayError: it gave none, or one that cannot be read. That is never a finding.
        """
        ...

    async def open(self) -> None:
        """Get ready; called once before the first decision."""
        ...

    async def close(self) -> None:
        """Let go of what `open` took."""
        ...
