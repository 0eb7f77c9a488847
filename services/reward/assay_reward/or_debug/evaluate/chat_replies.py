"""A chat completion of a server as a reply of the policy, or the fault in its place."""

from typing import Any

from assay_reward.or_debug.evaluate.policy import PolicyReply
from assay_shared.errors import InvalidInput, Unreachable

_SERVICE = "model server"
#: Values of `finish_reason` with which the policy's own words end.
_OWN_ENDS = (
    *("stop", "length", "eos", "eos_token", "end_turn", "stop_sequence"),
    *("tool_calls", "function_call"),
)
#: Parts of a content by their type: the key of their words, or None for reasoning.
_PARTS = {
    "text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "reasoning": None,
    "thinking": None,
}
#: A server may count tokens of its template or of a stop: so much above `max_tokens` is believed.
_TIMES_MAX, _ABOVE_MAX = 4, 1024
_MAX_SHOWN = 200


def refuse_without_answer(completion: dict[str, Any]) -> None:
    """Refuse a completion that has no answer of the policy; it may be asked for again.

    Raises:
        Unreachable: it has an error, no choice, an end that is not normal, or no text.
    """
    choices = completion.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(first, dict) or not isinstance(message, dict) or completion.get("error"):
        told = str(completion.get("error") or "no choices")[:_MAX_SHOWN]
        raise Unreachable(f"a completion without an answer: {told}", service=_SERVICE)
    ended = str(first.get("finish_reason")).lower()
    if ended not in _OWN_ENDS:
        told = f"an answer that did not end normally (finish_reason {ended[:_MAX_SHOWN]})"
        raise Unreachable(told, service=_SERVICE)
    _text_of(message)


def read_reply(completion: dict[str, Any], max_tokens: int) -> PolicyReply:
    """Return the reply of a completion that `refuse_without_answer` lets pass.

    Raises:
        InvalidInput: the server does not count its tokens, or its count cannot be right.
    """
    text = _text_of(completion["choices"][0]["message"])
    usage = completion.get("usage")
    found = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if not isinstance(found, int) or isinstance(found, bool):
        raise InvalidInput("a reply without usage.completion_tokens", service=_SERVICE)
    lowest, highest = int(bool(text)), _TIMES_MAX * max_tokens + _ABOVE_MAX
    if not lowest <= found <= highest:
        raise InvalidInput(
            "a reply whose usage.completion_tokens cannot be right: "
            f"{str(found)[:_MAX_SHOWN]}, for {len(text)} characters and max_tokens {max_tokens}",
            service=_SERVICE,
        )
    return PolicyReply(text, found)


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
        raise Unreachable(f"an answer without words: {_shown(part)}", service=_SERVICE)
    key = _PARTS[kind]
    words = "" if key is None else part.get(key)
    if not isinstance(words, str):
        raise Unreachable(f"an answer without words: {_shown(words)}", service=_SERVICE)
    return words


def _shown(value: object) -> str:
    return str(value)[:_MAX_SHOWN]
