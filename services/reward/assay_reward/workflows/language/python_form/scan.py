"""Refuses Python source that `ast.parse` must not see, in one pass over its tokens.

CPython's parser recurses in C: on a thread with a small stack, a long run of `-` or `lambda:`
ends the whole process. So nesting is bounded here, and words, signs and texts outside the language
are refused with their place, before CPython reads anything.
"""

import re
import unicodedata

from assay_reward.workflows.language.limits import WorkflowLimits
from assay_reward.workflows.language.problems import InvalidWorkflow, ProblemKind, refuse, shown
from assay_reward.workflows.language.tree import Position

_MAX_BRACKETS = 32
#: `not not not ...`, `await await ...`, `- - - ...`.
_MAX_PREFIXES = 8

_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+|\#[^\n]*|\\\n)
    |(?P<line>\n)
    |(?P<text>(?P<prefix>[A-Za-z]{0,2})(?P<quote>\"{3}|'{3}|"|')) # the rest is read apart
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9][0-9A-Za-z_.]*)
    |(?P<sign>->|\+=|==|!=|<=|>=|[=<>()\[\]{}:,.+-])""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][0-9]+)?|[0-9]+(?:\.[0-9]+)?[eE]")
_TEXT_ENDS = {
    '"': re.compile(r'(?:[^"\\\n]++|\\[\s\S])*+"'),
    "'": re.compile(r"(?:[^'\\\n]++|\\[\s\S])*+'"),
    '"""': re.compile(r'(?:[^"\\]++|\\[\s\S]|"(?!""))*+"""'),
    "'''": re.compile(r"(?:[^'\\]++|\\[\s\S]|'(?!''))*+'''"),
}
_HOLES = re.compile(
    r"""\{\{|\}\}|\{[ ]*\w+(?:\.\w+|\[(?:"\w+"|'\w+')\])?[ ]*\}|(?P<wrong>[{}])""", re.ASCII
)
_ESCAPE = re.compile(r"\\([\s\S])")
_WORD_HINTS = {
    "lambda": "write the steps out",
    "yield": "return a text at the end",
    "class": "write async def workflow(problem):",
    "try": "a failed operator ends the workflow; write the steps without try",
    "except": "a failed operator ends the workflow; write the steps without try",
    "finally": "a failed operator ends the workflow; write the steps without try",
    "with": "write the steps out",
    "while": "write for _ in range(3): with if not ...: break as its first step",
    "continue": "put the rest of the pass in an else",
    "pass": "leave the block out",
    "is": "compare with == or !=",
    "None": "there is no empty value; write an empty text",
    "from": "the operators are known without an import",
    "global": "names of the workflow are known in the whole workflow",
    "nonlocal": "a branch returns its result",
    "del": "leave the name bound",
    "raise": "return a text at the end",
    "assert": "write an if",
}
_SIGN_HINTS = {
    ";": "one step a line",
    "*": "texts are joined with holes, and numbers are not computed",
    "/": "numbers are not computed",
    "%": 'write f"... {name} ..."',
    "@": "decorators are not part of the language",
    "!": "write not, or !=",
    "&": "write and",
    "|": "write or",
    "\\": "a backslash stands in a text",
    "`": "give the code alone, without a fence",
}


#: Words and holes outside the language that a repair knows. They nest no deeper than others.
IDIOM_WORDS = frozenset({"class", "from", "pass", "continue", "None"})
_IDIOM_HOLE = re.compile(
    r"""\{ ?\w+\.get\((?:"\w+"|'\w+')(?:, ?(?:"[\w ]*"|'[\w ]*'))?\) ?\}""", re.ASCII
)


def refuse_foreign(
    source: str, limits: WorkflowLimits, words: frozenset[str] = frozenset()
) -> None:
    """Check that a source has only the language's tokens, and these words, in bounds.

    Raises:
        InvalidWorkflow: with the place of the first that is not.
    """
    _Scan(source, limits, words).run()


class _Scan:
    def __init__(self, source: str, limits: WorkflowLimits, words: frozenset[str]) -> None:
        self._words = words
        self._source = source
        self._limits = limits
        self._line = 1
        self._line_start = 0
        self._brackets = 0
        self._prefixes = 0

    def run(self) -> None:
        at = num_tokens = 0
        while at < len(self._source):
            match = _TOKEN.match(self._source, at)
            if match is None:
                raise self._foreign(at)
            end = match.end()
            if match["line"] or match["blank"]:
                self._count_lines(at, end)
                at = end
                continue
            num_tokens += 1
            if num_tokens > self._limits.max_tokens:
                hint = f"at most {self._limits.max_tokens}"
                raise self._refused(at, "the workflow has too many words", hint)
            if match["text"]:
                end = self._text(at, match["prefix"].lower(), match["quote"], end)
            else:
                self._check_token(at, match)
            at = end

    def _check_token(self, at: int, match: re.Match[str]) -> None:
        token = match[0]
        if token in _WORD_HINTS and token not in self._words:
            what = f"{token} is not part of the language"
            raise self._refused(at, what, _WORD_HINTS[token])
        if match["number"] and not _NUMBER.fullmatch(token):
            what = f"{shown(token)} is not a number of the language"
            raise self._refused(at, what, "such as 3 or 0.5")
        self._prefixes = self._prefixes + 1 if token in ("-", "+", "not", "await") else 0
        if self._prefixes > _MAX_PREFIXES:
            raise self._refused(at, f"too many {token} in a row", f"at most {_MAX_PREFIXES}")
        if match["sign"]:
            self._brackets += (token in "([{") - (token in ")]}")
            if self._brackets > _MAX_BRACKETS:
                hint = f"at most {_MAX_BRACKETS} levels"
                raise self._refused(at, "brackets nested too deeply", hint, ProblemKind.LIMIT)

    def _text(self, at: int, prefix: str, quote: str, inside: int) -> int:
        """Check a text from its prefix; return the index after its closing quote."""
        if prefix not in ("", "f", "r", "fr", "rf"):
            what = f"{shown(prefix)} before a text is not part of the language"
            raise self._refused(at, what, "write f for holes, or leave it out")
        match = _TEXT_ENDS[quote].match(self._source, inside)
        if match is None:
            raise self._refused(at, "this text is not closed", f"close it with {quote}")
        body = match[0][: -len(quote)]
        if "r" not in prefix:
            for escape in _ESCAPE.finditer(body):
                if escape[1] not in "nt\"'\\\n":
                    what = f"\\{shown(escape[1])} is not an escape"
                    hint = "write \\\\ for a backslash"
                    raise self._refused(inside + escape.start(), what, hint)
        if "f" in prefix:
            holes = _IDIOM_HOLE.sub(lambda found: "_" * len(found[0]), body)
            for hole in _HOLES.finditer(holes if self._words else body):
                if hole["wrong"]:
                    hint = 'a hole is {name} or {name["field"]}; write {{ and }} for braces'
                    where = inside + hole.start()
                    raise self._refused(where, "a brace that is not part of a hole", hint)
        self._prefixes = 0
        self._count_lines(at, match.end())
        return match.end()

    def _count_lines(self, start: int, end: int) -> None:
        self._line += self._source.count("\n", start, end)
        last = self._source.rfind("\n", start, end)
        if last >= 0:
            self._line_start = last + 1

    def _refused(
        self, at: int, what: str, hint: str, kind: ProblemKind = ProblemKind.SYNTAX
    ) -> InvalidWorkflow:
        before = self._source[self._line_start : at]
        line = self._line + before.count("\n")
        column = len(before) - before.rfind("\n")
        return refuse(kind, what, Position(line, column), hint)

    def _foreign(self, at: int) -> InvalidWorkflow:
        character = self._source[at]
        hint = _SIGN_HINTS.get(character, "names have the letters a-z and A-Z, digits and _")
        name = unicodedata.name(character, "") if not character.isascii() else ""
        what = f"'{shown(character)}'{f' ({name})' if name else ''} is not part of the language"
        return self._refused(at, what, hint)
