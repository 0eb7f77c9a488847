"""Tool calls in a reply's text, in the form of Qwen's and Hermes' templates.

<tool_call>
{"name": "add", "arguments": {"x": 1}}
</tool_call>
"""

import json
import re
import uuid
from dataclasses import dataclass

MARK = "<tool_call>"
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


@dataclass(frozen=True)
class Call:
    """A tool call; `arguments` is a JSON object as text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ReplyParts:
    """A reply's text without its calls, and the calls."""

    content: str
    calls: tuple[Call, ...] = ()


def read_reply(text: str) -> ReplyParts:
    """Return the content of `text` and the calls at its end.

    If a call is unreadable, or other text stands between or after the calls, all of it is content.
    """
    before, mark, after = text.partition(MARK)
    calls = [_read_call(found) for found in _CALL.findall(mark + after)]
    beside = _CALL.sub("", mark + after)
    known = tuple(call for call in calls if call is not None)
    if not known or len(known) < len(calls) or beside.strip():
        return ReplyParts(text)
    return ReplyParts(before.strip(), known)


def _read_call(text: str) -> Call | None:
    try:
        call = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", {})
    if not isinstance(arguments, dict):
        return None
    return Call(f"call_{uuid.uuid4().hex}", call["name"], json.dumps(arguments))


class HeldText:
    """A streamed reply that holds possible calls back until its end."""

    def __init__(self) -> None:
        self._text = ""
        self._num_sent = 0

    def add(self, text: str) -> str:
        """Add text; return the unsent text that certainly does not belong to a call."""
        self._text += text
        at = self._text.find(MARK)
        sure = at if at >= 0 else len(self._text) - _num_begun(self._text)
        sent, self._num_sent = self._text[self._num_sent : sure], max(sure, self._num_sent)
        return sent

    def end(self) -> ReplyParts:
        """Return the unsent rest: content, or calls."""
        reply = read_reply(self._text)
        if reply.calls:
            return ReplyParts("", reply.calls)
        return ReplyParts(self._text[self._num_sent :])


def _num_begun(text: str) -> int:
    """Return the number of characters at the end that may begin a call."""
    most = min(len(MARK) - 1, len(text))
    return next((n for n in range(most, 0, -1) if MARK.startswith(text[-n:])), 0)
