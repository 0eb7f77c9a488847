"""LaTeX commands for looks only: fonts, sizes, colours and frames."""

import re

#: Marks around upright text in LaTeX, as in \\text{km}: such letters are words, not variables.
OPEN, CLOSE = "\ue000", "\ue001"

_UPRIGHT = "text|mathrm|textrm|textbf|textit|textsf|texttt|textsc|textup|textnormal|textmd" + (
    r"|mbox|hbox|mathtt|mathsf|operatorname\*?|rm"
)
_STYLED = (
    "mathbf|mathit|mathnormal|boldsymbol|bm|pmb|vec|emph|underline|ensuremath|mathord|boxed|fbox"
)
_NAMES = re.compile(rf"\\(?:(?P<upright>{_UPRIGHT})|(?:{_STYLED}))\s*+\{{")
#: {x | x > 3}: these braces are a set's, not a group in TeX.
_SET_BUILDER = re.compile(r"\{\s*+[A-Za-z]\s*+(?:\\in[^|:]{1,24})?(?:\\mid|\||:)")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_INNERMOST_UPRIGHT = re.compile(rf"\\(?:{_UPRIGHT})\s*+\{{([^{{}}\\]*+)\}}")
_MAX_NESTED = 32
#: {\\rm cm}: a declaration for the rest of its group; then declarations anywhere.
_UPRIGHT_GROUP = re.compile(r"\{\s*+\\(?:rm|tt|sf|sc)(?![A-Za-z])([^{}]*+)\}")
_DECLARED = re.compile(
    r"\\(?:rm|bf|it|sf|tt|sc|bfseries|itshape|tiny|small|normalsize|large|Large|LARGE|huge|Huge)"
    r"(?![A-Za-z])\s*+"
    r"|\\(?:text)?color\s*+\{[A-Za-z!\d]*+\}|\\[hv]?phantom\s*+\{[^{}]*+\}"
    r"|\\(?:left|right|[bB]igg?[lr]?)\s*+\.|\\[hvm]space\*?\s*+\{[^{}]*+\}"
)
_BLACKBOARD = re.compile(r"\\(?:mathbb|Bbb)\s*+(?:\{\s*+([A-Z])\s*+\}|([A-Z])(?![A-Za-z]))")
#: A currency in upright letters, and a number at their beginning: neither is a word.
_SIGN = re.compile(rf"{OPEN}\s*+([€£¥%°\ue002])\s*+{CLOSE}")
_NUMBER = re.compile(rf"\s{OPEN}(\s*+[-+]?[\ue002$€£¥]?\d[\d.,/]*+)(?=[\s{CLOSE}])")
#: Upright signs and digits without a letter.
_NO_LETTERS = re.compile(rf"{OPEN}([^A-Za-z{OPEN}{CLOSE}]*+){CLOSE}")


def without_styles(text: str) -> str:
    """Return the text without fonts, sizes, colours and frames; upright letters are marked."""
    text = _BLACKBOARD.sub(lambda found: rf"\mathbb{{{found[1] or found[2]}}}", text)
    if "\\rm" in text or "\\tt" in text or "\\s" in text:
        text = _UPRIGHT_GROUP.sub(rf" {OPEN}\1{CLOSE}", text)
    text = _INNERMOST_UPRIGHT.sub(rf" {OPEN}\1{CLOSE}", text)
    text = _unwrapped(text)
    text = _DECLARED.sub(" ", text)
    if OPEN in text:
        text = _NO_LETTERS.sub(r"\1", _NUMBER.sub(rf"\1 {OPEN}", _SIGN.sub(r"\1", text)))
    return _without_outer_braces(text)


def _unwrapped(text: str) -> str:
    """Return a text without style commands around other braces or commands, from last to first."""
    for found in list(_NAMES.finditer(text))[: -_MAX_NESTED - 1 : -1]:
        end = closing(text, found.end())
        if end is None:
            continue
        inner = text[found.end() : end]
        if found["upright"]:
            inner = f" {OPEN}{inner}{CLOSE}"
        elif _is_argument(text, found.start(), inner):
            inner = f"{{{inner}}}"
        text = text[: found.start()] + inner + text[end + 1 :]
    return text


def _is_argument(text: str, start: int, inner: str) -> bool:
    """Return True if the group is an argument of a command: its braces must stay."""
    before = text[:start].rstrip()
    return before.endswith(("^", "_", "}")) or bool(re.search(r"\\[A-Za-z]+\Z", before[-16:]))


def closing(text: str, start: int) -> int | None:
    """Return the place of the closing brace for a brace opened just before `start`, or None."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        if len(brace.group()) == 1:
            depth += 1 if brace.group() == "{" else -1
            if depth == 0:
                return brace.start()
    return None


def _without_outer_braces(text: str) -> str:
    """Return a text without braces around all of it: {5} is 5."""
    bare = text.strip()
    while (
        not _SET_BUILDER.match(bare) and bare.startswith("{") and closing(bare, 1) == len(bare) - 1
    ):
        bare = bare[1:-1].strip()
    return bare


def unstyled(text: str) -> str:
    """Return a text without fonts and dollars around all of it: \\text{Paris} is Paris."""
    while True:
        bare = text.strip()
        if bare.count("$") == 2 and bare[0] == bare[-1] == "$":
            bare = bare[1:-1].strip()
        found = _NAMES.match(bare)
        if found is None or closing(bare, found.end()) != len(bare) - 1:
            return bare
        text = bare[found.end() : -1]
