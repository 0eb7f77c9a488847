"""Texts from outside in Markdown: shown as they are, never read as markup."""

import re
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import category

_TICKS = re.compile(r"`+")
#: Characters without a picture that are in no category of invisible characters: fillers,
#: Braille's blank, the grapheme joiner, Khmer's inherent vowels, and selectors of variants.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]"
)
#: Controls, formats such as marks of direction, halves of characters, and ends of lines.
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_ENDS_AND_TABS = "\n\t"
_MARK = "\N{REPLACEMENT CHARACTER}"


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
        yield "| " + " | ".join(cell(text) for text in row) + " |"
    yield ""


def cell(text: str) -> str:
    """Return the text escaped for a cell: a failure's message may hold any character."""
    return " ".join(visible(text).split()).replace("|", "\\|").replace("<", "&lt;")


def visible(text: str) -> str:
    """Return `text` with U+FFFD for invisible characters and for marks of text direction."""
    text = text.replace("\r\n", "\n")
    if text.isascii() and text.isprintable():
        return text
    hidden = {ord(one): _MARK for one in set(text) if _is_invisible(one)}
    return text.translate(hidden) if hidden else text


def _is_invisible(one: str) -> bool:
    if one in _ENDS_AND_TABS:
        return False
    return category(one) in _INVISIBLE or _BLANK.match(one) is not None


def _longest_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
