"""The reasoning in a model's text, between tags that templates use, or in a harmony channel."""

import re
from collections import deque

_NAMES = r"(?:think(?:ing)?|thought|reasoning|seed:think|scratchpad)\s?"
_OPENING = re.compile(rf"\s*(?:<{_NAMES}>|\[think\]|◁think▷)", re.IGNORECASE)
_CLOSING = re.compile(rf"</{_NAMES}>|\[/think\]|◁/think▷", re.IGNORECASE)
#: Text without any of these closes no reasoning.
_ENDS = ("</", "[/", "◁/")
_CHANNEL, _FINAL = "<|channel|>", "<|channel|>final<|message|>"


def after_reasoning(text: str) -> str:
    """Return a text without its reasoning; "" if the reasoning never ends.

    A template may have written the opening tag into the prompt, so the closing tag is enough.
    """
    if text.startswith(_CHANNEL):
        return text.rpartition(_FINAL)[2] if _FINAL in text else ""
    if any(end in text for end in _ENDS):
        closing = deque(_CLOSING.finditer(text), maxlen=1)
        if closing:
            rest = text[closing[0].end() :]
            return "" if _OPENING.match(rest) else rest
    return "" if _OPENING.match(text) else text
