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
    text_of_message,
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
    if isinstance(message, dict):
        text_of_message(message)
    elif not isinstance(choice.get("text"), str):
        raise fault("a choice without text")


def read_answer(reply: Mapping[str, Any], max_tokens: int) -> ReadReply:
    """Return the answer of a reply that `refuse_fault` lets pass.

    Several parts of a content are one text, and a refusal is read as its words. An answer that is
    only reasoning or a tool's call has no text.

    Raises:
        InvalidInput: the server does not count its tokens, or its count cannot be right.
    """
    choice = first_choice(reply)
    message = choice.get("message")
    text = text_of_message(message) if isinstance(message, dict) else choice.get("text") or ""
    num_tokens = sampled_tokens(reply, text, max_tokens)
    return ReadReply(text, num_tokens, str(choice.get("finish_reason")).lower() == CUT)
