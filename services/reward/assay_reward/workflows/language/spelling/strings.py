"""Escapes and holes of texts, the same in both forms.

A text may hold any printable or line-breaking character that UTF-8 can carry. In a source, a
backslash begins an escape: `\\n`, `\\t`, `\\"`, `\\'` and `\\\\`. Others are refused: Python would
read the `\\b` of `\\boxed` as a backspace.
"""

import re

from assay_reward.workflows.language.names import named
from assay_reward.workflows.language.problems import ProblemKind, refuse, shown
from assay_reward.workflows.language.tree import (
    FieldOf,
    Position,
    Reference,
    TextValue,
    Variable,
    text_of,
)

_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
_PIECE = re.compile(r"\\(?P<escape>.)|(?P<double>\{\{|\}\})|\{(?P<hole>[^{}]*)\}|(?P<brace>[{}])")
_HOLE = re.compile(r"(\w+)(?:\.(\w+))?", re.ASCII)
#: Control characters (except tab and line feed) and halves of surrogate pairs.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def text_from(source: str, position: Position) -> TextValue:
    """Return the text of a quoted source, with `{name}` and `{name.field}` as holes.

    Raises:
        InvalidWorkflow: an unknown escape, or braces that are not a hole.
    """
    parts: list[str | Reference] = []
    at = 0
    for match in _PIECE.finditer(source):
        here = Position(position.line, position.column + 1 + match.start())
        parts.append(source[at : match.start()])
        at = match.end()
        if (letter := match["escape"]) is not None:
            parts.append(_escaped(letter, here))
        elif match["double"]:
            parts.append(match["double"][0])
        elif match["hole"] is not None:
            parts.append(_hole(match["hole"], here))
        else:
            hint = "write {{ and }} for braces"
            raise refuse(ProblemKind.SYNTAX, "a brace without its partner", here, hint)
    parts.append(source[at:])
    return text_of(parts, position)


def _escaped(letter: str, position: Position) -> str:
    if letter not in _ESCAPES:
        what = f"\\{shown(letter)} is not an escape"
        raise refuse(ProblemKind.SYNTAX, what, position, "write \\\\ for a backslash")
    return _ESCAPES[letter]


def _hole(inside: str, position: Position) -> Reference:
    match = _HOLE.fullmatch(inside.strip())
    if match is None:
        hint = "a hole is {name} or {name.field}; write {{ and }} for braces"
        what = f"{{{shown(inside)}}} is not a hole"
        raise refuse(ProblemKind.SYNTAX, what, position, hint)
    name = named(match[1], position)
    if match[2] is None:
        return Variable(name, position=position)
    return FieldOf(name, named(match[2], position), position=position)


def refuse_control_characters(source: str) -> None:
    """Check that a source has no control characters, except tabs and line feeds.

    Raises:
        InvalidWorkflow: it has one, or half of a surrogate pair.
    """
    match = _FORBIDDEN.search(source)
    if match:
        before = source[: match.start()]
        position = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
        what = f"{shown(match[0])} is a control character"
        raise refuse(ProblemKind.SYNTAX, what, position, "remove the character")


def quoted(text: str, *, braces: bool) -> str:
    """Return a text in double quotes with escapes; `braces` doubles braces, as holes need it."""
    return f'"{escaped(text, braces=braces)}"'


def escaped(text: str, *, braces: bool) -> str:
    """Return a text with escapes, to stand between double quotes."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    return text.replace("{", "{{").replace("}", "}}") if braces else text
