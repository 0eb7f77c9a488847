"""Strict parsing of a judge's reply: a guess would invent a verdict."""

from typing import Any

from assay_judge.forms.forms import JudgePrompt, ParsedReply
from assay_judge.providers.endpoint import Declined, EndpointReply
from assay_shared.errors import JudgeFault
from assay_shared.text.masking import mask
from assay_shared.text.strict_json import DuplicateKey, read_strict_json

_FENCE = "```"
#: Values of `finish_reason` for a reply that the model ended on its own.
_NORMAL = frozenset({"stop", "eos", "eos_token", "end_turn"})
_FILTERED = frozenset({"content_filter", "safety", "recitation"})
_MAX_SHOWN = 200


class Truncated(JudgeFault):
    """The reply is empty or cut off: it had too few tokens."""


class UnreadableReply(JudgeFault):
    """The reply is not in the requested form."""


def read_reply(reply: EndpointReply, ask: JudgePrompt) -> ParsedReply:
    """Return the finding of a reply.

    Raises:
        Truncated: the reply is empty or cut off.
        Declined: a filter ended the reply.
        UnreadableReply: the reply ended in another unusual way, or is not the requested object.
    """
    ended = (reply.finish_reason or "").lower()
    if ended in _FILTERED:
        raise Declined(f"a reply ended by a filter (finish_reason {ended})")
    if not reply.text:
        reasoned = f", {reply.num_reasoned} characters of reasoning" if reply.num_reasoned else ""
        raise Truncated(f"an empty reply (finish_reason {reply.finish_reason}{reasoned})")
    if ended == "length":
        raise Truncated("a reply cut off at its token limit")
    if ended not in _NORMAL:
        raise UnreadableReply(
            f"a reply that did not end normally (finish_reason {reply.finish_reason})"
        )
    return read_text(reply.text, ask)


def read_text(text: str, ask: JudgePrompt) -> ParsedReply:
    """Return the finding of a reply's complete text.

    Raises:
        UnreadableReply: the text is not the requested object.
    """
    if text in ask.words:
        return ask.words[text]
    try:
        found = read_strict_json(_unfenced(text).strip())
    except DuplicateKey as error:
        raise UnreadableReply(f"{error}: not a verdict: {_show(text)}") from None
    except ValueError:
        raise UnreadableReply(f"a reply that is not a verdict: {_show(text)}") from None
    if not isinstance(found, dict):
        raise UnreadableReply(f"a reply that is not a verdict: {_show(text)}")
    reply: dict[str, Any] = found
    try:
        return ask.read(reply)
    except JudgeFault as error:
        raise UnreadableReply(f"{error.message}: not a verdict: {_show(text)}") from None


def _unfenced(text: str) -> str:
    """Return the content of a Markdown fence around the whole text, or the text without a fence."""
    if not (text.startswith(_FENCE) and text.endswith(_FENCE)):
        return text
    kind, _, content = text[len(_FENCE) : -len(_FENCE)].partition("\n")
    return content if kind.strip().lower() in ("", "json") else text


def _show(text: str) -> str:
    return repr(mask(text[: 10 * _MAX_SHOWN])[:_MAX_SHOWN])
