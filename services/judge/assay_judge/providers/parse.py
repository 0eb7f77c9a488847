"""Strict parsing of a judge's reply: a guess would invent a verdict."""

from typing import Any

from assay_judge.forms.forms import JudgePrompt, ParsedReply
from assay_shared.errors import JudgeFault
from assay_shared.providers.endpoint import EndpointReply
from assay_shared.providers.reply import UnreadableReply, complete_text
from assay_shared.text.masking import mask
from assay_shared.text.strict_json import DuplicateKey, read_strict_json

_FENCE = "```"
_MAX_SHOWN = 200


def read_reply(reply: EndpointReply, ask: JudgePrompt) -> ParsedReply:
    """Return the finding of a reply.

    Raises:
        Truncated: the reply is empty or cut off.
        Declined: a filter ended the reply.
        UnreadableReply: the reply ended in another unusual way, or is not the requested object.
    """
    return read_text(complete_text(reply), ask)


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
