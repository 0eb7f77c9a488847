"""A chat completion of a server as a reply of the policy, or the fault in its place."""

from typing import Any

from assay_reward.or_debug.evaluate.policy import PolicyReply
from assay_shared.clients.model_replies import (
    ended_choice,
    fault,
    first_choice,
    sampled_tokens,
    shown,
)

#: Parts of a content by their type: the key of their words, or None for reasoning.
_PARTS = {
    "text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "reasoning": None,
    "thinking": None,
}


def refuse_without_answer(completion: dict[str, Any]) -> None:
    """Refuse a completion that has no answer of the policy; it may be asked for again.

    Raises:
        Unreachable: it has an error, no choice, an end that is not normal, or no text.
    """
    message = ended_choice(completion).get("message")
    if not isinstance(message, dict):
        raise fault("a choice without a message")
    _text_of(message)


def read_reply(completion: dict[str, Any], max_tokens: int) -> PolicyReply:
    """Return the reply of a completion that `refuse_without_answer` lets pass.

    Raises:
        InvalidInput: the server does not count its tokens, or its count cannot be right.
    """
    text = _text_of(first_choice(completion)["message"])
    return PolicyReply(text, sampled_tokens(completion, text, max_tokens))


def _text_of(message: dict[str, Any]) -> str:
    """Return the words of a message; parts are joined, and a refusal is read as its words."""
    content, refusal = message.get("content"), message.get("refusal")
    written = "" if content is None else content
    parts = written if isinstance(written, list) else [{"type": "text", "text": written}]
    text = "".join(_words_of(part) for part in parts)
    return text or (refusal if isinstance(refusal, str) else "")


def _words_of(part: object) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str) or kind not in _PARTS:
        raise fault(f"an answer without words: {shown(part)}")
    key = _PARTS[kind]
    words = "" if key is None else part.get(key)
    if not isinstance(words, str):
        raise fault(f"an answer without words: {shown(words)}")
    return words
