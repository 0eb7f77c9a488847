"""Names that a workflow may bind, the same in both forms."""

import keyword
import re

from assay_reward.workflows.language.problems import ProblemKind, refuse, shown
from assay_reward.workflows.language.tree import Position

#: The task's text: the only name that is set from the start.
INPUT = "problem"
MAX_NAME_CHARS = 64

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
TEXT_KEYWORDS = frozenset(
    (
        *("if", "else", "end", "repeat", "as", "while", "parallel", "branch", "give"),
        *("return", "break", "and", "or", "not", "in", "true", "false"),
    )
)
#: A name has to be usable in both forms, so that each can be printed as the other.
_PYTHON_WORDS = frozenset((*keyword.kwlist, "asyncio", "range", "str", "self"))
RESERVED = TEXT_KEYWORDS | _PYTHON_WORDS


def is_name(name: str) -> bool:
    """Return whether this can be the name of a value, parameter or field."""
    return len(name) <= MAX_NAME_CHARS and bool(_NAME.fullmatch(name)) and name not in RESERVED


def named(name: str, position: Position) -> str:
    """Return the name if the language allows it.

    Raises:
        InvalidWorkflow: it has other characters, is too long, or is a word of the language.
    """
    if name in RESERVED:
        what = f"{name} is a word of the language"
        raise refuse(ProblemKind.NAME, what, position, "choose another name")
    if not is_name(name):
        hint = f"a letter, then letters, digits and _, at most {MAX_NAME_CHARS}"
        raise refuse(ProblemKind.NAME, f"{shown(name)} is not a name", position, hint)
    return name


def bound_name(name: str, position: Position) -> str:
    """Return the name if a workflow may assign it.

    Raises:
        InvalidWorkflow: it is not a name, or it is the task's text.
    """
    if name == INPUT:
        what = f"{INPUT} is the task's text"
        raise refuse(ProblemKind.NAME, what, position, "choose another name")
    return named(name, position)
