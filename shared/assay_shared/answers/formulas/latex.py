"""LaTeX and Unicode as plain text, with every digit, sign and operator kept."""

import re
from functools import lru_cache

from assay_shared.answers.formulas.styles import CLOSE as CLOSE
from assay_shared.answers.formulas.styles import OPEN as OPEN
from assay_shared.answers.formulas.styles import without_styles
from assay_shared.answers.formulas.symbols import in_ascii
from assay_shared.answers.formulas.typed import as_latex

#: A currency's dollar; a bare one delimits mathematics.
DOLLAR = "\ue002"
#: A longer text is compared as it stands.
MAX_LENGTH = 2000
_FULL_STOPS = (".", "。", "．", "｡", "।", "۔", "።")

_DEGREE = re.compile(
    rf"(?:\{{\}})?\^\s*+(?:\\circ\b|\{{\s*+(?:\\circ|{OPEN}o{CLOSE})\s*+\}})|\\degree\b|(?<=\d)\s*+\\deg\b"
)
#: The scale of a temperature after its degree sign.
_SCALE = re.compile(rf"°\s*+{OPEN}?\s*+([CF])\s*+{CLOSE}?(?![A-Za-z])")
#: 0.\\dot{1}4285\\dot{7}: the digits between the dots repeat.
_DOTTED = re.compile(
    r"(?<=\.)(\d*+)\\dot\s*+(?:\{(\d)\}|(\d))(?:(\d*+)\\dot\s*+(?:\{(\d)\}|(\d)))?+"
)
#: {a \\over b} and {n \\choose k}, in braces or as all of a text.
_OVER = re.compile(r"(?:\{|\A)([^{}\\$=<>,]*+)\\(over|choose)(?![A-Za-z])([^{}\\$=<>,]*+)(?:\}|\Z)")
#: {}_5C_2, the number of ways to choose.
_CHOSEN = re.compile(
    r"(?:\A|(?<=[\s=(]))(?:\{\}|\{\s\})?[_^](?:\{(\d++)\}|(\d++))\s?C_(?:\{(\d++)\}|(\d))(?!\d)"
)
_ROOT = re.compile(r"\\root\s*+(\d++)\s*+\\of(?![A-Za-z])")
_PLUS = re.compile(r"(?<![\w)}\]])\+\s*+(?=\\infty\b)")
_MODULUS = re.compile(
    rf"\(?\s*+(?:\\p?mod(?![A-Za-z])|{OPEN}mod\s*+{CLOSE}|(?<![A-Za-z])mod(?![A-Za-z]))"
    r"\s*+\{?\s*+(\w++)\s*+\}?\s*+\)?"
)
#: A non-breaking space (~), after a value; after a command or a sign, ~ is a negation.
_TIE = re.compile(rf"(\\[A-Za-z]++)?(?<=[\w}})\].,$°{OPEN}])~")
_RELATION = {">=": r"\ge ", "<=": r"\le "}
_ASCII_RELATION = re.compile(r"(?<![<=>])[<>]=(?![=>])")
#: The half of a day after a time: 2:30 p.m.
_HALF_DAY = re.compile(rf"(?<=:\d\d)[\s{OPEN}]*+([AaPp])\.?\s?[Mm](?![A-Za-z])\.?{CLOSE}?")
#: Values in words.
_SAID = {
    "infinity": r"\infty",
    "positive infinity": r"\infty",
    "negative infinity": r"-\infty",
    "minus infinity": r"-\infty",
    "all real numbers": r"\mathbb{R}",
    "all reals": r"\mathbb{R}",
    "the real numbers": r"\mathbb{R}",
    "empty set": r"\emptyset",
    "the empty set": r"\emptyset",
}
_ENDS_OF_SAID = frozenset(("y", "s", "t", CLOSE))
_MAX_SAID = 24
_COMMAND = re.compile(r"\\(?:[A-Za-z]++|.)", re.DOTALL)
_COMMANDS = {
    **dict.fromkeys(("left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr"), ""),
    **dict.fromkeys(("bigg", "Bigg", "displaystyle", "textstyle", "limits", "!"), ""),
    **dict.fromkeys((",", ";", ":", ">", " ", "\n", "thinspace", "enspace", "enskip"), " "),
    **dict.fromkeys(("land", "wedge"), r"\wedge "),
    **dict.fromkeys(("lor", "vee"), r"\vee "),
    **dict.fromkeys(("lnot", "neg"), r"\neg "),
    **dict.fromkeys(("setminus", "smallsetminus", "backslash"), r"\setminus "),
    **dict.fromkeys(("(", ")", "[", "]"), " "),
    **dict.fromkeys(("quad", "qquad"), " , "),
    **dict.fromkeys(("dfrac", "tfrac", "cfrac", "sfrac", "nicefrac"), r"\frac"),
    **dict.fromkeys(("dbinom", "tbinom"), r"\binom"),
    **dict.fromkeys(("leq", "leqslant"), r"\le "),
    **dict.fromkeys(("geq", "geqslant"), r"\ge "),
    **dict.fromkeys(("lvert", "rvert", "vert", "mid"), "|"),
    "neq": r"\ne ",
    "lt": "<",
    "gt": ">",
    "lbrace": r"\{",
    "rbrace": r"\}",
    "ast": r"\cdot ",
    "times": r"\cdot ",
    "varnothing": r"\emptyset ",
    "colon": ":",
    "cr": r"\\",
    "$": DOLLAR,
    "%": "%",
    "#": "#",
    "&": "&",
    "_": "_",
}
#: A text of only these characters just needs its space collapsed.
_SIMPLE = re.compile(r"[A-Za-z0-9 .,;:/+%()'-]*+")


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """Return the text without delimiters, spacing commands, emphasis and a closing full stop."""
    bare = text.strip().strip("*").strip()
    if bare.isdecimal() and bare.isascii():
        return bare
    bare = as_latex(bare)
    if not _SIMPLE.fullmatch(bare):
        bare = _without_latex(bare)
    bare = " ".join(bare.split())
    if ":" in bare:
        bare = _HALF_DAY.sub(lambda found: f" {found[1].lower()}m", bare)
    if bare.endswith(_FULL_STOPS) and not bare.endswith(".."):
        bare = bare[:-1].rstrip()
    if len(bare) <= _MAX_SAID and bare[-1:] in _ENDS_OF_SAID:
        return _SAID.get(words_of(bare).strip().lower(), bare)
    return bare


def words_of(text: str) -> str:
    """Return a plain text without the marks of upright letters."""
    return text.replace(OPEN, "").replace(CLOSE, "").replace(DOLLAR, "$")


def _without_latex(text: str) -> str:
    text = _undelimited(in_ascii(text.strip("\u200b\ufeff")))
    if "=" in text:
        text = _ASCII_RELATION.sub(lambda found: _RELATION[found.group()], text)
    if "C_" in text:
        text = _CHOSEN.sub(_binomial, text)
    if "\\" in text:
        text = _without_commands(text)
    return text.replace("{,}", ",")


def _without_commands(text: str) -> str:
    text = without_styles(text.replace("{,}", ","))
    text = _DEGREE.sub("°", text)
    if "°" in text:
        text = _SCALE.sub(r"°\1", text)
    if "\\dot" in text:
        text = _DOTTED.sub(_repeating, text)
    if "\\over" in text or "\\choose" in text:
        text = _OVER.sub(_fraction, text)
    if "\\equiv" in text:
        text = _MODULUS.sub(r"\\pmod{\1}", text)
    text = _ROOT.sub(r"\\sqrt[\1]", text)
    text = _COMMAND.sub(_command, text)
    if "infty" in text:
        text = _PLUS.sub("", text)
    return _TIE.sub(_tied, text) if "~" in text else text


def _tied(found: re.Match[str]) -> str:
    return found.group() if found[1] else " "


def _repeating(found: re.Match[str]) -> str:
    fixed, *period = (group or "" for group in found.groups())
    return rf"{fixed}\overline{{{''.join(period)}}}"


def _binomial(found: re.Match[str]) -> str:
    return rf"\binom{{{found[1] or found[2]}}}{{{found[3] or found[4]}}}"


def _fraction(found: re.Match[str]) -> str:
    command = "frac" if found[2] == "over" else "binom"
    return rf"\{command}{{{found[1].strip()}}}{{{found[3].strip()}}}"


def _command(found: re.Match[str]) -> str:
    return _COMMANDS.get(found.group()[1:], found.group())


def _undelimited(text: str) -> str:
    """Return a text without the dollars around mathematics; before a number it is a currency."""
    if "$" not in text:
        return text
    text = text.replace(r"\$", DOLLAR)
    closed = text.rstrip(" .,")
    if closed.endswith("$") and text.count("$") % 2 == 0:
        return text.replace("$", " ")
    return re.sub(r"\$(?=\s?-?[\d.])|(?<=\d)\$$", DOLLAR, text).replace("$", " ")
