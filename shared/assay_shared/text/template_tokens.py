"""Tokens of chat templates in texts: a model that learns such a text plays both sides."""

import re

#: Tokens and headings of the usual templates, whatever the model's own are.
_TEMPLATE = re.compile(
    r"<\|[^<>|\s]{1,60}\|>|<\uff5c[^<>]{1,60}\uff5c>|\[/?INST\]|<</?SYS>>|</?s>"
    r"|<(?:start|end)_of_turn>|<(?:bos|eos|pad|unk)>"
    r"|^\s*#{2,3}\s*(?:Instruction|Response|Human|Assistant|User|System)\s*:",
    re.IGNORECASE | re.MULTILINE,
)


def has_template_token(text: str) -> bool:
    """Return True if a text has a token or a heading of a usual chat template."""
    return _TEMPLATE.search(text) is not None
