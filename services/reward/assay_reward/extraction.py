"""Which part of a text is its answer."""

import re
from enum import StrEnum

_MARKED = re.compile(r"####[ \t]*(\S.*)")
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
FENCED = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)


class Extract(StrEnum):
    """What is compared: all of the text, its last line, or the last of what is marked as the
    answer: by <answer>...</answer>, by \\\\boxed{...}, after ####, or between fences.
    """

    WHOLE = "whole"
    LAST_LINE = "last_line"
    TAGGED = "tagged"
    BOXED = "boxed"
    MARKED = "marked"
    FENCED = "fenced"


def extract(text: str, part: Extract) -> str | None:
    """The part of the text without the space around it; None if it is not there."""
    match part:
        case Extract.WHOLE:
            return text.strip()
        case Extract.LAST_LINE:
            return text.strip().rpartition("\n")[2].strip()
        case Extract.BOXED:
            return last_boxed(text)
        case Extract.MARKED:
            return last_marked(text)
        case Extract.TAGGED:
            return _last(_TAGGED, text)
        case Extract.FENCED:
            return _last(FENCED, text)


def last_boxed(text: str) -> str | None:
    """The content of the last \\boxed{...}, braces balanced."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth = 0
    for at in range(start + len("\\boxed"), len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + len("\\boxed{") : at].strip()
    return None


def last_marked(text: str) -> str | None:
    """What follows the last #### on its line."""
    return _last(_MARKED, text)


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    return str(found[-1]).strip() if found else None
