"""A chat completion of a server as a reply of the policy, or the fault in its place."""

from typing import Any

from assay_reward.or_debug.evaluate.policy import PolicyReply
from assay_shared.clients.model_replies import (
    ended_choice,
    fault,
    first_choice,
    sampled_tokens,
    text_of_message,
)


def refuse_without_answer(completion: dict[str, Any]) -> None:
    """Refuse a completion that has no answer of the policy; it may be asked for again.

    Raises:
        Unreachable: it has an error, no choice, an end that is not normal, or no text.
    """
    message = ended_choice(completion).get("message")
    if not isinstance(message, dict):
        raise fault("a choice without a message")
    text_of_message(message)


def read_reply(completion: dict[str, Any], max_tokens: int) -> PolicyReply:
    """Return the reply of a completion that `refuse_without_answer` lets pass.

    Raises:
        InvalidInput: the server does not count its tokens, or its count cannot be right.
    """
    text = text_of_message(first_choice(completion)["message"])
    return PolicyReply(text, sampled_tokens(completion, text, max_tokens))
