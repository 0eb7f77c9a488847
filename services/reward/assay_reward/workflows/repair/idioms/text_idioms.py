"""Rewrites Python's words and signs in the text form. Each edit stays inside its line."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from assay_reward.workflows.language.limits import WorkflowLimits
from assay_reward.workflows.language.names import TEXT_KEYWORDS
from assay_reward.workflows.language.signatures import Signatures, ValueType
from assay_reward.workflows.language.tree import Position
from assay_reward.workflows.repair.edits import RepairKind, SourceRepair, applied
from assay_reward.workflows.repair.idioms.record import MAX_IDIOMS, RewrittenSource
from assay_reward.workflows.repair.operator_names import nearest

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+|\#[^\n]*)
    |(?P<slashes>//[^\n]*)
    |(?P<line>\n)
    |(?P<text>(?P<f>f?)(?:"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'
        |[\u201c\u201d][^\u201c\u201d"\\\n]*[\u201c\u201d]|[\u2018\u2019][^\u2018\u2019"\\\n]*[\u2018\u2019]))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9.]+)
    |(?P<sign>\+=|==|!=|<=|>=|[^\n'"])""",
    re.VERBOSE,
)
_HOLE = re.compile(r"\{(\w+)\['(\w+)'\]\}", re.ASCII)
_QUOTE = re.compile(r'\\.|"')
_WORDS = {"True": "true", "False": "false", "elif": "else if"}
_HEADS = ("if", "else", "elif", "repeat", "parallel", "branch", "for")
_CONDITION = ("if", "while", "and", "or", "not", "elif")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: Position

    @property
    def end(self) -> int:
        return self.position.column + len(self.text)


def rewritten_text(source: str, signatures: Signatures, limits: WorkflowLimits) -> RewrittenSource:
    """Return the source without idioms; as it is, if it has none or too many.

    The reader of the language checks the result.
    """
    if len(source) > limits.max_chars:
        return RewrittenSource(source)
    tokens = list(_tokens(source))
    edits = list(_Line.edits_of(tokens, signatures))
    if not 0 < len(edits) <= MAX_IDIOMS:
        return RewrittenSource(source)
    try:
        return RewrittenSource(applied(source, edits), tuple(edits))
    except ValueError:
        # Tabs or lines stand inside an idiom.
        return RewrittenSource(source)


def _tokens(source: str) -> Iterator[_Token]:
    """Return the tokens up to a text that its line does not close: the reader refuses that."""
    line, start, at = 1, 0, 0
    while (match := _TOKEN.match(source, at)) is not None:
        at = match.end()
        kind = match.lastgroup or ""
        if kind == "line":
            yield _Token("line", "", Position(line, match.start() - start + 1))
            line, start = line + 1, at
        elif kind != "space":
            kind = "text" if match["text"] else kind
            yield _Token(kind, match[0], Position(line, match.start() - start + 1))
    yield _Token("line", "", Position(line, at - start + 1))


class _Line:
    """The tokens of one step, and its edits."""

    def __init__(self, tokens: Sequence[_Token], signatures: Signatures) -> None:
        self._tokens = [*tokens, *[_Token("line", "", Position())] * 6]
        self._size = len(tokens)
        self._signatures = signatures
        self._texts = {
            name
            for one in signatures.values()
            for name, kind in one.fields.items()
            if kind is ValueType.TEXT
        }
        #: The parameters that wait for a value, for each open bracket; None: not of an operator.
        self._open: list[list[str] | None] = []

    @classmethod
    def edits_of(cls, tokens: Sequence[_Token], signatures: Signatures) -> Iterator[SourceRepair]:
        """Return the edits of all steps; a step ends with its line, outside of brackets."""
        step: list[_Token] = []
        depth = 0
        for token in tokens:
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            if token.kind != "line":
                step.append(token)
            elif depth <= 0 and step:
                yield from cls(step, signatures).edits()
                step, depth = [], 0
        if step:
            yield from cls(step, signatures).edits()

    def edits(self) -> Iterator[SourceRepair]:
        """Return the edits of the step."""
        first = self._tokens[0]
        if first.kind == "slashes":
            yield _edit(first, "//", "#")
            return
        at = 0
        if first.text == "for":
            found = self._repeat()
            if found is not None:
                yield found
                at = 7
        elif self._is_append():
            yield self._over(1, 3, " += [")
            last = next(one for one in reversed(self._tokens) if one.text == ")")
            yield _edit(last, ")", "]")
            at = 4
        while at < self._size:
            edit, used = self._edit(at)
            if edit is not None:
                yield edit
            at += used

    def _texts_at(self, at: int, number: int) -> list[str]:
        return [one.text for one in self._tokens[at : at + number]]

    def _repeat(self) -> SourceRepair | None:
        match self._tokens[:7]:
            case [
                _, _Token("name", index), _Token(text="in"), _Token(text="range"),
                _Token(text="("), _Token("number", times), _Token(text=")"),
            ]:  # fmt: skip
                named = "" if index == "_" else f" as {index}"
                return self._over(0, 7, f"repeat {times}{named}")
        return None

    def _is_append(self) -> bool:
        return (
            self._texts_at(1, 3) == [".", "append", "("]
            and self._tokens[self._size - 1].text == ")"
            and self._is_near(0, 4)
        )

    def _is_near(self, at: int, number: int) -> bool:
        """Return whether the tokens stand on one line, without a space between them."""
        pairs = pairwise(self._tokens[at : at + number])
        return all(
            one.end == other.position.column and one.position.line == other.position.line
            for one, other in pairs
        )

    def _over(self, at: int, number: int, after: str) -> SourceRepair:
        """Return an edit over tokens of one line; only single spaces may stand between them."""
        tokens = self._tokens[at : at + number]
        before = tokens[0].text
        for one, other in pairwise(tokens):
            before += " " * (other.position.column - one.end) + other.text
        return _edit(tokens[0], before, after)

    def _edit(self, at: int) -> tuple[SourceRepair | None, int]:
        """Return the edit at a token, if any, and the number of tokens that it covers."""
        token = self._tokens[at]
        self._track(at)
        match token.kind, token.text:
            case "name", "await" if self._tokens[at + 1].kind == "name":
                return self._over_space(at), 1
            case "name", "True" | "False" | "elif" as word:
                return _edit(token, word, _WORDS[word]), 1
            case "name", _ if token.text not in TEXT_KEYWORDS and self._after(at) == "+":
                return self._sum(at)
            case "name", _ if token.text not in TEXT_KEYWORDS:
                field = self._field_edit(at)
                if field is not None:
                    return field
            case "text", _ if self._tokens[at + 1].text == "+":
                return self._sum(at)
            case "text", said:
                changed = _double_quoted(said)
                return (None if changed == said else _edit(token, said, changed)), 1
            case "sign", ":" | ";" as sign if at == self._size - 1:
                is_head = self._tokens[0].text in _HEADS
                return (_edit(token, sign, "") if sign == ";" or is_head else None), 1
            case "sign", "\u00a0":
                return _edit(token, token.text, " "), 1
        return self._named(at), 1

    def _after(self, at: int) -> str:
        """Return the sign after a name or field."""
        return self._texts_at(at + 3 if self._texts_at(at + 1, 1) == ["."] else at + 1, 1)[0]

    def _sum(self, at: int) -> tuple[SourceRepair | None, int]:
        """Return the edit of `"a" + b.field + ...`, a text with holes."""
        parts, place = [""], at
        while True:
            token = self._tokens[place]
            size = 3 if token.kind == "name" and self._texts_at(place + 1, 1) == ["."] else 1
            if token.kind not in ("name", "text"):
                return None, max(1, place - at)
            said = "".join(self._texts_at(place, size))
            parts.append(_double_quoted(said)[1:-1] if token.kind == "text" else f"{{{said}}}")
            place += size
            if self._tokens[place].text != "+":
                break
            place += 1
        joined = "".join(parts)
        return self._over(at, place - at, f'"{joined}"'), place - at

    def _over_space(self, at: int) -> SourceRepair:
        token, following = self._tokens[at], self._tokens[at + 1]
        return _edit(token, token.text + " " * (following.position.column - token.end), "")

    def _field_edit(self, at: int) -> tuple[SourceRepair, int] | None:
        """Return the edit of `a["field"]`, `a.get("field")`, or of a text as a condition."""
        name = self._tokens[at].text
        if self._is_near(at, 4) and self._texts_at(at + 1, 1) == ["["]:
            key, close = self._tokens[at + 2], self._tokens[at + 3]
            if key.kind == "text" and close.text == "]":
                return self._over(at, 4, f"{name}.{key.text[1:-1]}"), 4
        if self._is_near(at, 6) and self._texts_at(at + 1, 3) == [".", "get", "("]:
            key, close = self._tokens[at + 4], self._tokens[at + 5]
            if key.kind == "text" and close.text == ")":
                return self._over(at, 6, f"{name}.{key.text[1:-1]}"), 6
        before = self._tokens[at - 1].text if at else ""
        dot, field, after = self._texts_at(at + 1, 3)
        is_text = dot == "." and field in self._texts and self._is_near(at, 3)
        if is_text and before in _CONDITION and after in ("", ":", "and", "or"):
            return self._over(at, 3, f'{name}.{field} != ""'), 3
        return None

    def _track(self, at: int) -> None:
        """Follow the brackets: which parameters of which operator wait for a value."""
        token = self._tokens[at]
        if token.text in ("(", "[", "{") and token.kind == "sign":
            called = self._tokens[at - 1] if at else token
            name = nearest(called.text, self._signatures) if called.kind == "name" else None
            known = token.text == "(" and name is not None
            self._open.append(list(self._signatures[name].parameters) if known and name else None)
        elif token.text in (")", "]", "}") and token.kind == "sign" and self._open:
            self._open.pop()

    def _named(self, at: int) -> SourceRepair | None:
        """Return the edit that names a value of an operator, after `(` or `,`."""
        token, value = self._tokens[at], self._tokens[at + 1]
        if token.text not in ("(", ",") or not self._open or not self._open[-1]:
            return None
        if self._tokens[at + 2].text == "=":
            if value.text in self._open[-1]:
                self._open[-1].remove(value.text)
            return None
        if value.text in (")", ""):
            return None
        return _edit(value, "", f"{self._open[-1].pop(0)}=")


def _edit(token: _Token, before: str, after: str) -> SourceRepair:
    return SourceRepair(RepairKind.IDIOM, token.position, before, after)


def _double_quoted(said: str) -> str:
    """Return a text in double quotes, with the holes of the text form."""
    body = said.removeprefix("f")
    inside = body[1:-1]
    if body[0] != '"':
        inside = _QUOTE.sub(lambda one: '\\"' if one[0] == '"' else one[0], inside)
    holes = _HOLE.sub(r"{\1.\2}", inside)
    return f'"{holes}"'
