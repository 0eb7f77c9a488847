"""The circumstances of a question to a model: its caller, run, deadline, and the bill."""

import time
from dataclasses import dataclass, field

from assay_shared.errors import TimedOut
from assay_shared.providers.config import Price
from assay_shared.providers.state.ledger import Usage, money

OVER = "the time for this question is over"


class OutOfTime(TimedOut):
    """The time of the caller's question is over."""


@dataclass
class Bill:
    """The cost of a question so far, failed requests included."""

    tokens: int = 0
    estimated_tokens: int = 0
    money: float = 0.0

    async def enter(self, tokens: int) -> None:
        """Wait for permission to send a request of up to `tokens` (prompt and reply).

        A plain bill has no limit. A subclass with one may raise an AssayError: it ends the
        question, without a further try.
        """

    def leave(self, tokens: int) -> None:
        """End a request that entered; it is on the bill if it was answered."""

    def add(self, usage: Usage, price: Price) -> None:
        """Add an answered request."""
        self.tokens += usage.prompt_tokens + usage.completion_tokens
        self.estimated_tokens += usage.estimated_tokens
        self.money += money(usage, price)


@dataclass(frozen=True)
class ModelCall:
    """The caller, run, deadline (`time.monotonic`) and bill of a question.

    A request shared by several callers is on the bill of the first caller.
    """

    caller: str
    run: str
    deadline: float
    bill: Bill = field(default_factory=Bill)

    def left_s(self) -> float:
        """Return the seconds left until the deadline. Raises OutOfTime if none are."""
        left_s = self.deadline - time.monotonic()
        if left_s <= 0:
            raise OutOfTime(OVER)
        return left_s
