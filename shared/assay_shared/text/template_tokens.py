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


def without_template_tokens(text: str) -> str:
    """Return a text in which a space breaks up each token or heading of a usual chat template.

    A tokenizer then reads its letters, and no end of a message.
    """
    return _TEMPLATE.sub(_broken, text)


def _broken(found: re.Match[str]) -> str:
    before = len(found[0]) - len(found[0].lstrip())
    return f"{found[0][: before + 1]} {found[0][before + 1 :]}"
