"""The answer in a model server's reply, or the fault that stands in its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay_shared.clients.model_replies import (
    CUT,
    ended_choice,
    fault,
    first_choice,
    sampled_tokens,
)


@dataclass(frozen=True)
class ReadReply:
    """An answer of the policy: its text, its sampled tokens, and whether it was cut off."""

    text: str
    num_tokens: int
    is_cut: bool


def refuse_fault(reply: Mapping[str, Any]) -> None:
    """Refuse a reply that has no answer of the policy; the request may be made again.

    Raises:
        Unreachable: it has an error, no choice, or a choice that did not end normally.
    """
    choice = ended_choice(reply)
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if not isinstance(text, str) and not (text is None and isinstance(message, dict)):
        raise fault("a choice without text")


def read_answer(reply: Mapping[str, Any], max_tokens: int) -> ReadReply:
    """Return the answer of a reply that `refuse_fault` lets pass.

    A refusal is read as its words. An answer that is only reasoning or a tool's call has no text.

    Raises:
        InvalidInput: the server does not count its tokens, or its count cannot be right.
    """
    choice = first_choice(reply)
    message = choice.get("message")
    text = choice.get("text")
    if isinstance(message, dict):
        refusal = message.get("refusal")
        text = message.get("content") or (refusal if isinstance(refusal, str) else "")
    text = text or ""
    num_tokens = sampled_tokens(reply, text, max_tokens)
    return ReadReply(text, num_tokens, str(choice.get("finish_reason")).lower() == CUT)
