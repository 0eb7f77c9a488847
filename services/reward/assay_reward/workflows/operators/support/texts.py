"""Texts of a run: which characters are the workflow's own, and which the executor's.

The policy answers for its own characters alone: a verbose executor costs a workflow nothing. An
answer has to hold something of a reply.
"""

from collections.abc import Iterable


class ReplyText(str):
    """A text that holds something of a reply. `own_chars` counts the other characters."""

    own_chars: int

    def __new__(cls, text: str, own_chars: int = 0) -> "ReplyText":
        made = super().__new__(cls, text)
        made.own_chars = own_chars
        return made


def num_own(text: str) -> int:
    """Return the number of characters that the workflow or the problem put there."""
    return text.own_chars if isinstance(text, ReplyText) else len(text)


def derived(made: str, source: str) -> str:
    """Return a text made of `source`; it holds something of a reply if `source` does."""
    return (
        ReplyText(made, min(num_own(source), len(made))) if isinstance(source, ReplyText) else made
    )


def joined(parts: Iterable[str], between: str = "") -> str:
    """Return the parts as one text, which still knows its own characters."""
    texts = list(parts)
    made = between.join(texts)
    if not any(isinstance(one, ReplyText) for one in texts):
        return made
    return ReplyText(made, sum(map(num_own, texts)) + len(between) * max(len(texts) - 1, 0))


def fitted(texts: Iterable[str], most: int) -> list[str]:
    """Return the texts with at most about `most` characters together: replies are shortened."""
    found = list(texts)
    if sum(map(len, found)) <= most:
        return found
    num_replies = sum(isinstance(one, ReplyText) for one in found)
    share = max(most - sum(map(num_own, found)), 0) // max(num_replies, 1)
    return [
        ReplyText(shortened(one, share + one.own_chars), one.own_chars)
        if isinstance(one, ReplyText)
        else one
        for one in found
    ]


def shortened(text: str, most: int) -> str:
    """Return a text, or its beginning and end with the number of characters between."""
    if len(text) <= most:
        return str(text)
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters]\n{text[len(text) - half :]}"
