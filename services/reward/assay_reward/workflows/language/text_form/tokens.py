"""Tokens of the text form, made in one pass over the source."""

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from assay_reward.workflows.language.limits import WorkflowLimits
from assay_reward.workflows.language.problems import InvalidWorkflow, ProblemKind, refuse, shown
from assay_reward.workflows.language.tree import Position


class TokenKind(StrEnum):
    """Kinds of tokens; the value is a token's name in messages."""

    NAME = "a name"
    NUMBER = "a number"
    STRING = "a text"
    SIGN = "a sign"
    LINE_END = "the end of the line"
    END = "the end of the workflow"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the source; a STRING's text is without its quotes, escapes not yet read."""

    kind: TokenKind
    text: str
    position: Position

    def __str__(self) -> str:
        if self.kind in (TokenKind.LINE_END, TokenKind.END):
            return self.kind.value
        quoted = f'"{self.text}"' if self.kind is TokenKind.STRING else self.text
        return shown(quoted)


_TOKEN = re.compile(
    r"""(?P<space>[ \t]+|\#[^\n]*)
    |(?P<line>\n)
    |(?P<NAME>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<NUMBER>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |"(?P<STRING>(?:[^"\\\n]|\\[^\n])*)"
    |(?P<SIGN>\+=|==|!=|<=|>=|[=<>()\[\]{}:,.-])""",
    re.VERBOSE,
)
_SIGN_HINTS = {
    "'": 'texts stand in "double quotes"',
    '"': "a text ends on its line; write \\n for a new line",
    ";": "one step a line",
    "+": 'write a text with holes: "{a} {b}"',
    "!": "write not, or !=",
    "&": "write and",
    "|": "write or",
    "\r": "lines end with a line feed",
}


def tokens_of(source: str, limits: WorkflowLimits) -> list[Token]:
    """Return the tokens; blank lines and line ends inside brackets are left out.

    Raises:
        InvalidWorkflow: a character is outside the language, or there are too many tokens.
    """
    tokens: list[Token] = []
    line, line_start, at, open_brackets = 1, 0, 0, 0
    while at < len(source):
        position = Position(line, at - line_start + 1)
        match = _TOKEN.match(source, at)
        if match is None:
            raise _unknown(source[at], position)
        at = match.end()
        kind = match.lastgroup
        if kind == "line":
            line, line_start = line + 1, at
            if tokens and tokens[-1].kind is not TokenKind.LINE_END and not open_brackets:
                tokens.append(Token(TokenKind.LINE_END, "", position))
        elif kind and kind != "space":
            tokens.append(Token(TokenKind[kind], match[kind], position))
            if kind == "SIGN":
                open_brackets += (match[kind] in "([{") - (match[kind] in ")]}")
                open_brackets = max(0, open_brackets)
        if len(tokens) > limits.max_tokens:
            hint = f"at most {limits.max_tokens}"
            raise refuse(ProblemKind.LIMIT, "the workflow has too many words", position, hint)
    end = Position(line, at - line_start + 1)
    if tokens and tokens[-1].kind is not TokenKind.LINE_END:
        tokens.append(Token(TokenKind.LINE_END, "", end))
    tokens.append(Token(TokenKind.END, "", end))
    return tokens


def _unknown(character: str, position: Position) -> InvalidWorkflow:
    hint = _SIGN_HINTS.get(character, "names have the letters a-z and A-Z, digits and _")
    name = unicodedata.name(character, "") if not character.isascii() else ""
    what = f"'{shown(character)}'{f' ({name})' if name else ''} is not part of the language"
    return refuse(ProblemKind.SYNTAX, what, position, hint)
