"""Texts of others inside Markdown: shown as they are, never read as markup."""

import re

_TICKS = re.compile(r"`+")
#: Control characters but line breaks and tabs, and those that change the direction of text.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def fenced(text: str) -> str:
    """A block of code that shows `text` whatever is in it: its fence is longer than any inside."""
    fence = "`" * max(3, _longest_ticks(text) + 1)
    return f"{fence}text\n{visible(text)}\n{fence}"


def code(text: str) -> str:
    """`text` as code within a line."""
    line = " ".join(visible(text).split()) or " "
    ticks = "`" * (_longest_ticks(line) + 1)
    # A space on each side keeps a backtick at an end of the text from joining the fence.
    return f"{ticks} {line} {ticks}"


def visible(text: str) -> str:
    """`text` with U+FFFD for characters that show nothing or change how others are shown."""
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def _longest_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
