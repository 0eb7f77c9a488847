"""What any reply of a model server has to have: a choice that ended normally, and its tokens.

As for a judge, a reply without a normal stop is a failure. The policy's own words are an answer,
also a refusal, a call of a tool, or nothing after its reasoning.
"""

from collections.abc import Mapping
from typing import Any

from assay_shared.errors import InvalidInput, Unreachable

SERVICE = "model server"
#: The value of `finish_reason` of an answer that was cut off at its limit.
CUT = "length"
#: Values of `finish_reason` where the policy ended its answer, or the limit did.
_ENDED = frozenset(
    {"stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call", CUT}
)
#: A server may count some tokens more than were asked for: those of its template, or of a stop.
_MOST_TIMES, _MOST_MORE = 4, 1024
_MAX_SHOWN = 200
#: Parts of a content by their type: the key of their words, or None for reasoning.
_PARTS = {
    "text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "reasoning": None,
    "thinking": None,
}


def ended_choice(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of a reply if it ended normally.

    Raises:
        Unreachable: the reply has an error, no choice, or a choice that did not end normally.
    """
    if reply.get("error"):
        raise fault(f"a reply with an error: {shown(reply['error'])}")
    choice = first_choice(reply)
    ended = choice.get("finish_reason")
    if str(ended).lower() not in _ENDED:
        raise fault(f"an answer that did not end normally (finish_reason {shown(ended)})")
    return choice


def first_choice(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of a reply.

    Raises:
        Unreachable: the reply has no choices.
    """
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise fault("a reply without choices")
    first: dict[str, Any] = choices[0]
    return first


def sampled_tokens(reply: Mapping[str, Any], text: str, max_tokens: int) -> int:
    """Return the number of tokens that the server sampled for a text.

    Raises:
        InvalidInput: the server does not count them, or its count cannot be right.
    """
    usage = reply.get("usage")
    found = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise _miscounted("a reply without usage.completion_tokens: tokens cannot be counted")
    if found > _MOST_TIMES * max_tokens + _MOST_MORE:
        raise _miscounted(
            f"a reply of {found} usage.completion_tokens, where {max_tokens} at most were asked for"
        )
    if found == 0 and text:
        raise _miscounted("a reply of 0 usage.completion_tokens with a text")
    return found


def fault(message: str) -> Unreachable:
    """Return the error of a reply without an answer of the policy; it may be asked for again."""
    return Unreachable(message, service=SERVICE)


def shown(value: object) -> str:
    """Return the beginning of a value of a server, for a message."""
    return str(value)[:_MAX_SHOWN]


def _miscounted(message: str) -> InvalidInput:
    return InvalidInput(message, service=SERVICE)


def text_of_message(message: Mapping[str, Any]) -> str:
    """Return the words of a message; parts are joined, and a refusal is read as its words.

    Raises:
        Unreachable: a part has no words, such as an image.
    """
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
