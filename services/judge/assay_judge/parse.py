"""Reading a judge's reply: strictly, since a guess would be a verdict nobody gave."""

import re
from typing import Any

from pydantic_core import from_json

from assay_judge.endpoint import Reply
from assay_judge.forms import Ask, Finding
from assay_shared.errors import JudgeFault

_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*?)\n?```\Z", re.DOTALL)
_MAX_SHOWN = 200


class NoRoom(JudgeFault):
    """The reply is empty or cut off: it had too few tokens."""


class Unreadable(JudgeFault):
    """The reply is something else than what was asked for."""


def read_reply(reply: Reply, ask: Ask) -> Finding:
    """What a reply says.

    Raises:
        NoRoom: it is empty or cut off.
        Unreadable: it is anything but the one object.
    """
    if not reply.text:
        reasoned = f", {reply.num_reasoned} characters of reasoning" if reply.num_reasoned else ""
        raise NoRoom(f"an empty reply (finish_reason {reply.finish_reason}{reasoned})")
    if reply.finish_reason == "length":
        raise NoRoom("a reply cut off at its token limit")
    return read_text(reply.text, ask)


def read_text(text: str, ask: Ask) -> Finding:
    """As `read_reply`, of a text that is known to be whole."""
    if text in ask.words:
        return ask.words[text]
    fenced = _FENCE.match(text)
    try:
        found = from_json(fenced.group(1) if fenced else text)
    except ValueError:
        raise Unreadable(f"a reply that is not a verdict: {text[:_MAX_SHOWN]!r}") from None
    if not isinstance(found, dict):
        raise Unreadable(f"a reply that is not a verdict: {text[:_MAX_SHOWN]!r}")
    reply: dict[str, Any] = found
    try:
        return ask.read(reply)
    except JudgeFault as error:
        raise Unreadable(f"{error.message}: not a verdict: {text[:_MAX_SHOWN]!r}") from None
