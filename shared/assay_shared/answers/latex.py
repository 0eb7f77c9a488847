"""LaTeX and Unicode in one plain form that keeps every digit, sign and operator."""

import re
from functools import lru_cache

#: Around what was upright in LaTeX, as in \\text{km}: such letters are words and no variables.
OPEN, CLOSE = "\ue000", "\ue001"
#: A currency's dollar; a bare one delimits mathematics.
DOLLAR = "\ue002"
#: A longer text is compared as it stands.
MAX_LENGTH = 2000

_UPRIGHT = re.compile(
    r"\\(?:text|mathrm|textrm|textbf|textit|textsf|mbox|hbox|operatorname|rm)\s*+\{([^{}]*)\}"
)
_STYLED = re.compile(r"\\(?:mathbf|mathit|mathsf|boldsymbol|bm|vec|emph)\s*+\{([^{}]*)\}")
_DEGREE = re.compile(r"\^\s*+(?:\\circ\b|\{\s*+\\circ\s*+\})|\\degree\b")
_COMMAND = re.compile(r"\\(?:[A-Za-z]++|.)", re.DOTALL)
_SUPERSCRIPT = re.compile("[⁺⁻]?[⁰¹²³⁴-⁹]+")
_COMMANDS = {
    **dict.fromkeys(("left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr"), ""),
    **dict.fromkeys(("bigg", "Bigg", "displaystyle", "textstyle", "limits", "!"), ""),
    **dict.fromkeys((",", ";", ":", " ", "\n", "thinspace", "hspace"), " "),
    **dict.fromkeys(("(", ")", "[", "]"), " "),
    **dict.fromkeys(("quad", "qquad"), " , "),
    **dict.fromkeys(("dfrac", "tfrac", "cfrac"), r"\frac"),
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
    "$": DOLLAR,
    "%": "%",
    "#": "#",
    "&": "&",
    "_": "_",
}
_CHARACTERS = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "×": r"\cdot ",
        "·": r"\cdot ",
        "⋅": r"\cdot ",
        "÷": r"\div ",
        "√": r"\sqrt ",
        "π": r"\pi ",
        "∞": r"\infty ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "≈": r"\approx ",
        "±": r"\pm ",
        "∪": r"\cup ",
        "∈": r"\in ",
        "∅": r"\emptyset ",
        "º": "°",
        "＝": "=",
        "½": r"\frac{1}{2}",
        "⅓": r"\frac{1}{3}",
        "⅔": r"\frac{2}{3}",
        "¼": r"\frac{1}{4}",
        "¾": r"\frac{3}{4}",
        "⅕": r"\frac{1}{5}",
        "⅛": r"\frac{1}{8}",
        "α": r"\alpha ",
        "β": r"\beta ",
        "θ": r"\theta ",
        "λ": r"\lambda ",
        "\ue000": "\ufffd",
        "\ue001": "\ufffd",
        "\ue002": "\ufffd",
    }
)
_NORMAL = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
#: Nothing but these needs more than its space collapsed.
_SIMPLE = re.compile(r"[A-Za-z0-9 .,;:/+%()'-]*+")


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """The text without delimiters, spacing commands, emphasis and a closing full stop."""
    bare = text.strip().strip("*").strip()
    if not _SIMPLE.fullmatch(bare):
        bare = _without_latex(bare)
    bare = " ".join(bare.split())
    if bare.endswith(".") and not bare.endswith(".."):
        bare = bare[:-1].rstrip()
    return bare


def words_of(text: str) -> str:
    """A plain text without the marks of what was upright."""
    return text.replace(OPEN, "").replace(CLOSE, "").replace(DOLLAR, "$")


def _without_latex(text: str) -> str:
    text = _undelimited(text.strip("\u200b\ufeff").translate(_CHARACTERS))
    text = _SUPERSCRIPT.sub(lambda found: f"^{{{found.group().translate(_NORMAL)}}}", text)
    if "\\" in text:
        text = _DEGREE.sub("°", text.replace("{,}", ","))
        text = _STYLED.sub(r"\1", text)
        text = _UPRIGHT.sub(rf" {OPEN}\1{CLOSE}", text)
        text = _COMMAND.sub(_command, text)
        text = text.replace("~", " ")
    return text.replace("{,}", ",")


def _command(found: re.Match[str]) -> str:
    return _COMMANDS.get(found.group()[1:], found.group())


def _undelimited(text: str) -> str:
    """Without the dollars that delimit mathematics; a dollar before a number is a currency."""
    if "$" not in text:
        return text
    text = text.replace(r"\$", DOLLAR)
    closed = text.rstrip(" .,")
    if closed.endswith("$") and text.count("$") % 2 == 0:
        return text.replace("$", " ")
    return re.sub(r"\$(?=\s?-?[\d.])|(?<=\d)\$$", DOLLAR, text).replace("$", " ")
