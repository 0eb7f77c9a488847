"""Checks that a model's reply is complete, whatever its text says."""

from assay_shared.errors import ModelFault
from assay_shared.providers.endpoint import Declined, EndpointReply
from assay_shared.text.blank import says_nothing

#: Values of `finish_reason` for a reply that the model ended on its own.
_NORMAL = frozenset({"stop", "eos", "eos_token", "end_turn"})
_FILTERED = frozenset({"content_filter", "safety", "recitation"})


class Truncated(ModelFault):
    """The reply is empty or cut off: it had too few tokens."""


class UnreadableReply(ModelFault):
    """The reply is not in the requested form."""


def complete_text(reply: EndpointReply) -> str:
    """Return the text of a complete reply; it always says something.

    Raises:
        Truncated: the reply is empty or cut off.
        Declined: a filter ended the reply.
        UnreadableReply: the reply ended in another unusual way.
    """
    ended = (reply.finish_reason or "").lower()
    if ended in _FILTERED:
        raise Declined(f"a reply ended by a filter (finish_reason {ended})")
    if says_nothing(reply.text):
        reasoned = f", {reply.num_reasoned} characters of reasoning" if reply.num_reasoned else ""
        raise Truncated(f"an empty reply (finish_reason {reply.finish_reason}{reasoned})")
    if ended == "length":
        raise Truncated("a reply cut off at its token limit")
    if ended not in _NORMAL:
        raise UnreadableReply(
            f"a reply that did not end normally (finish_reason {reply.finish_reason})"
        )
    return reply.text
