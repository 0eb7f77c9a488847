"""Texts from outside in Markdown: shown as they are, never read as markup."""

import re
from collections.abc import Iterable, Iterator, Sequence

_TICKS = re.compile(r"`+")
#: Control characters but line breaks and tabs, and those that change the direction of text.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def fenced(text: str) -> str:
    """Return a block of code to show any `text`: its fence is longer than any inside."""
    fence = "`" * max(3, _longest_ticks(text) + 1)
    return f"{fence}text\n{visible(text)}\n{fence}"


def code(text: str) -> str:
    """Return `text` as code within a line."""
    line = " ".join(visible(text).split()) or " "
    ticks = "`" * (_longest_ticks(line) + 1)
    # A space on each side keeps a backtick at an end of the text from joining the fence.
    return f"{ticks} {line} {ticks}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table's lines, then an empty line."""
    yield "| " + " | ".join(headings) + " |"
    yield "|" + "---|" * len(headings)
    for row in rows:
        yield "| " + " | ".join(_cell(text) for text in row) + " |"
    yield ""


def _cell(text: str) -> str:
    """Return the text escaped for a cell: a failure's message may hold any character."""
    return " ".join(visible(text).split()).replace("|", "\\|").replace("<", "&lt;")


def visible(text: str) -> str:
    """Return `text` with U+FFFD for invisible characters and for marks of text direction."""
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def _longest_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
