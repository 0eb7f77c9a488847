"""Problems of a workflow: each says where, what is wrong and what would be right."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assay_reward.workflows.language.tree import Position
from assay_shared.errors import InvalidInput

#: A comparison of two names takes the product of their lengths.
_COMPARED_CHARS, _COMPARED_NAMES = 32, 100


class ProblemKind(StrEnum):
    """Kinds of problems; rates of a run are reported by kind."""

    SYNTAX = "syntax"
    LIMIT = "limit"
    NAME = "name"
    UNSET = "unset"
    OPERATOR = "operator"
    PARAMETER = "parameter"
    FIELD = "field"
    TYPE = "type"
    RETURN = "return"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem at one place."""

    kind: ProblemKind
    message: str
    position: Position
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.position}: {self.message}{hint}"


class InvalidWorkflow(InvalidInput):
    """A workflow is refused: the fault of its author, with all problems that were found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[object, ...]:
        return (InvalidWorkflow, (self.problems,))


def refuse(kind: ProblemKind, message: str, position: Position, hint: str = "") -> InvalidWorkflow:
    """Return the error for one problem, to be raised."""
    return InvalidWorkflow([Problem(kind, message, position, hint)])


def shown(text: str, limit: int = 40) -> str:
    """Return an untrusted text for a message: cut, and without control characters."""
    cut = text if len(text) <= limit else text[:limit] + "..."
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in cut)


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a hint with the nearest known name, or `otherwise` (by default all known names)."""
    names = sorted(known)
    by_fold = {folded(one)[:_COMPARED_CHARS]: one for one in names[:_COMPARED_NAMES]}
    near = difflib.get_close_matches(folded(name)[:_COMPARED_CHARS], by_fold, n=1, cutoff=0.7)
    if near:
        return f"did you mean {by_fold[near[0]]}?"
    return otherwise or f"there are {shown(', '.join(names), 400)}"


def folded(name: str) -> str:
    """Return the last part of a dotted name, in lower case, without underscores."""
    return name.rpartition(".")[2].replace("_", "").lower()
