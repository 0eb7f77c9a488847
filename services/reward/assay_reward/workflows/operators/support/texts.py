"""Texts of a run: which characters are the workflow's own, and which the executor's.

The policy answers for its own characters alone: a verbose executor costs a workflow nothing. And
it is paid for the executor's characters alone.
"""

from collections.abc import Iterable
from typing import Final

#: The origin of a character: a reply, the workflow or its problem, or a note about a cut reply.
REPLY: Final = b"r"
OWN: Final = b"o"
NOTE: Final = b"n"


class ReplyText(str):
    """A text that holds something of a reply. `origins` has a byte for each character."""

    origins: bytes

    def __new__(cls, text: str, origins: bytes | None = None) -> "ReplyText":
        made = super().__new__(cls, text)
        made.origins = REPLY * len(text) if origins is None else origins
        return made

    @property
    def own_chars(self) -> int:
        """The number of characters that the workflow or the problem put there."""
        return self.origins.count(OWN)


def num_own(text: str) -> int:
    """Return the number of characters that the workflow or the problem put there."""
    return text.own_chars if isinstance(text, ReplyText) else len(text)


def origins_of(text: str) -> bytes:
    """Return the origin of each character."""
    return text.origins if isinstance(text, ReplyText) else OWN * len(text)


def is_reply(text: str) -> bool:
    """Return True if the workflow has no part in a text, apart from white space."""
    if not isinstance(text, ReplyText):
        return False
    return not text.own_chars or all(
        char.isspace() for char, origin in zip(text, text.origins, strict=True) if origin == OWN[0]
    )


def derived(made: str, source: str) -> str:
    """Return a text made of `source`, with the origins of its characters.

    If `made` is not a part of `source`, its characters are of neither party, but as many are
    charged to the workflow as `source` has.
    """
    if not isinstance(source, ReplyText):
        return made
    place = source.find(made)
    if place >= 0:
        return ReplyText(made, source.origins[place : place + len(made)])
    charged = min(source.own_chars, len(made))
    return ReplyText(made, OWN * charged + NOTE * (len(made) - charged))


def joined(parts: Iterable[str], between: str = "") -> str:
    """Return the parts as one text, which still knows the origin of its characters."""
    texts = list(parts)
    made = between.join(texts)
    if not any(isinstance(one, ReplyText) for one in texts):
        return made
    return ReplyText(made, (OWN * len(between)).join(map(origins_of, texts)))


def fitted(texts: Iterable[str], most: int) -> list[str]:
    """Return the texts with at most about `most` characters together: replies are shortened."""
    found = list(texts)
    if sum(map(len, found)) <= most:
        return found
    num_replies = sum(isinstance(one, ReplyText) for one in found)
    share = max(most - sum(map(num_own, found)), 0) // max(num_replies, 1)
    return [
        shortened_reply(one, share + one.own_chars) if isinstance(one, ReplyText) else one
        for one in found
    ]


def shortened_reply(text: ReplyText, most: int) -> ReplyText:
    """Return a shortened text, which still knows the origin of its characters."""
    cut = shortened(text, most)
    if len(text) <= most:
        return text
    half = most // 2
    begin, end = text.origins[:half], text.origins[len(text) - half :]
    return ReplyText(cut, begin + NOTE * (len(cut) - 2 * half) + end)


def shortened(text: str, most: int) -> str:
    """Return a text, or its beginning and end with the number of characters between."""
    if len(text) <= most:
        return str(text)
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters]\n{text[len(text) - half :]}"
