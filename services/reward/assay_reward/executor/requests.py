"""What an operator asks of the executor, and what it gets."""

from pydantic import Field

from assay_shared.types import Message
from assay_shared.types.wire import Wire


class ExecutorRequest(Wire):
    """A conversation for the model to continue."""

    messages: tuple[Message, ...] = Field(min_length=1)
    #: Tokens of the reply, reasoning included; a model's `max_tokens_limit` may lower it.
    max_tokens: int = Field(ge=1)
    temperature: float = Field(default=0.0, ge=0, le=2)
    seed: int = 1
    #: Texts that end the reply; it does not contain them.
    stop: tuple[str, ...] = Field(default=(), max_length=4)


class ExecutorReply(Wire):
    """A complete reply. `text` is never empty, and has no reasoning."""

    text: str = Field(min_length=1)
    #: Tokens of this reply and of its prompt, as the endpoint counts them, or else an estimate.
    #: A reply from the cache has the same numbers as when it was written.
    tokens_in: int
    tokens_out: int
    is_estimated: bool
    #: Time from the call to the reply, with all waits and retries.
    seconds: float
    #: Money spent on this call, failed requests included: 0 for a reply from the cache.
    cost: float
    #: Name of the model in `executor.yaml`.
    model: str
    #: Requests sent for this reply; 0 for a reply from the cache or of an equal call in flight.
    attempts: int
