"""The answer in a model server's reply, or the fault that stands in its place.

As for a judge, a reply without a normal stop is a failure. The policy's own words are an answer,
also a refusal, a call of a tool, or nothing after its reasoning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay_shared.errors import InvalidInput, Unreachable

_SERVICE = "model server"
#: Values of `finish_reason` where the policy ended its answer.
_ENDED = frozenset(
    {"stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call"}
)
_CUT = "length"
#: A server may count some tokens more than were asked for: those of its template, or of a stop.
_MOST_TIMES, _MOST_MORE = 4, 1024
_MAX_SHOWN = 200


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
    if reply.get("error"):
        raise _fault(f"a reply with an error: {_shown(reply['error'])}")
    choice = first_choice(reply)
    ended = choice.get("finish_reason")
    if str(ended).lower() not in _ENDED | {_CUT}:
        raise _fault(f"an answer that did not end normally (finish_reason {_shown(ended)})")
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if not isinstance(text, str) and not (text is None and isinstance(message, dict)):
        raise _fault("a choice without text")


def first_choice(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of a reply.

    Raises:
        Unreachable: the reply has no choices.
    """
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise _fault("a reply without choices")
    first: dict[str, Any] = choices[0]
    return first


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
    num_tokens = _num_tokens(reply, text, max_tokens)
    return ReadReply(text, num_tokens, str(choice.get("finish_reason")).lower() == _CUT)


def _num_tokens(reply: Mapping[str, Any], text: str, max_tokens: int) -> int:
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


def _fault(message: str) -> Unreachable:
    return Unreachable(message, service=_SERVICE)


def _miscounted(message: str) -> InvalidInput:
    return InvalidInput(message, service=_SERVICE)


def _shown(value: object) -> str:
    return str(value)[:_MAX_SHOWN]
