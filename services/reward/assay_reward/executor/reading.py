"""The reader of the executor's replies, and of the texts kept of them."""

from typing import NamedTuple

from pydantic import ValidationError

from assay_reward.executor.metrics import ExecutorMetrics
from assay_shared.errors import ModelFault
from assay_shared.providers.endpoint import Declined, EndpointReply
from assay_shared.providers.reply import Truncated, UnreadableReply, complete_text
from assay_shared.providers.state.ledger import Usage
from assay_shared.text.blank import says_nothing
from assay_shared.types.wire import Wire


class CompleteReply(NamedTuple):
    """The text of a complete reply, and its tokens."""

    text: str
    usage: Usage


class KeptReply(Wire):
    """A complete reply as the cache keeps it."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    is_estimated: bool


class CompleteReader:
    """Accepts complete replies alone, and counts each kind of reply.

    Implements `assay_shared.providers.client.ReplyReader`.
    """

    def __init__(self, model: str, metrics: ExecutorMetrics) -> None:
        self._model = model
        self._metrics = metrics

    def read(self, reply: EndpointReply) -> CompleteReply:
        try:
            text = complete_text(reply)
        except ModelFault as error:
            self._count(_kind(error, reply))
            raise
        self._count("complete")
        return CompleteReply(text, reply.usage)

    def kept(self, reply: EndpointReply) -> str:
        usage = reply.usage
        return KeptReply(
            text=reply.text,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            is_estimated=usage.is_estimated,
        ).model_dump_json()

    def restore(self, kept: str) -> CompleteReply:
        try:
            found = KeptReply.model_validate_json(kept)
        except ValidationError:
            raise UnreadableReply("the cache holds a text that is not a kept reply") from None
        usage = Usage(found.prompt_tokens, found.completion_tokens, found.is_estimated)
        return CompleteReply(found.text, usage)

    def _count(self, kind: str) -> None:
        self._metrics.replies.labels(self._model, kind).inc()


def _kind(error: ModelFault, reply: EndpointReply) -> str:
    if isinstance(error, Declined):
        return "declined"
    if not isinstance(error, Truncated):
        return "odd"
    if not says_nothing(reply.text):
        return "truncated"
    return "reasoning_only" if reply.num_reasoned else "empty"
