"""ASCII in place of LaTeX: x**2, +/-3, [3, inf), (0,1) U (2,3), US$5, negative 3."""

import re

_POWER = re.compile(
    r"(?:(?<=[\w)}\]])\*\*(?=[^\s*])|(?<=[\w)}\]]) \*\* (?=[^\s*]))"
    r"(-?(?:\d++(?:\.\d++)?+|[A-Za-z]++(?!\()|\((?:[^()]++|\([^()]*+\))*+\)))(?![\w.!^]|\s?\*\*)"
)
_PLUS_MINUS = re.compile(r"\+\s?/\s?[-−]|\bplus or minus\b", re.IGNORECASE)
#: As the end of an interval, next to a relation, or alone.
_INFINITY = re.compile(
    r"(?:\A|(?<=[(\[,;=<>])|(?<=[(\[,;=<>] ))([-+]?)(?:infinity|infty|inf|oo)"
    r"(?=\s?(?:[)\],;<>]|\\right\s?[)\]]|\Z))",
    re.IGNORECASE,
)
#: Between two intervals or sets, in a text with an interval or set (or x in it) at its beginning.
_UNION = re.compile(r"(?<=[)\]}])\s*+(?:U|union)\s*+(?=(?:\\left\s?)?\\?[(\[{])")
_OF_SETS = re.compile(r"(?:[A-Za-z]\s?(?:\\in|∈)\s?)?(?:\\left\s?)?\\?[(\[{][^,]*+,")
_DOLLARS = re.compile(r"(?<![A-Za-z])(?:US|U\.S\.)\s?\\?\$(?=\s?-?[\d.])")
_US = re.compile(r"\b(?:US|U\.S\.) (?=dollar|cent)")
_CODE = re.compile(r"\A([-+]?)(USD|EUR|GBP)\s?(?=[\d.])")
_CODES = {"USD": r"\$", "EUR": "€", "GBP": "£"}
_NEGATIVE = re.compile(
    r"(?:\A|(?<=[=(])|(?<=[=(] ))(?:negative|minus)\s(?=[\d.$\\])", re.IGNORECASE
)
#: Most texts have no match, and skip the other patterns.
_ANY = re.compile(
    r"\*\*|\+\s?/|(?<!\\)[Ii][Nn][Ff]|oo|[Pp][Ll][Uu][Ss] |U[ \\(\[{.S]|union"
    r"|(?:\A|[=(] ?)[nNmM]|\A[-+]?[UEG]"
)


def as_latex(text: str) -> str:
    """Return the text with unambiguous ASCII spellings replaced by LaTeX."""
    if _ANY.search(text) is None:
        return text
    if "**" in text:
        text = _POWER.sub(r"^{\1}", text)
    text = _PLUS_MINUS.sub(r"\\pm ", text)
    text = _INFINITY.sub(r"\1\\infty", text)
    if "U" in text or "union" in text:
        if _OF_SETS.match(text) is not None:
            text = _UNION.sub(r"\\cup ", text)
        text = _US.sub("", _DOLLARS.sub(r"\\$", text))
    return _CODE.sub(_currency, _NEGATIVE.sub("-", text))


def _currency(found: re.Match[str]) -> str:
    return f"{found[1]}{_CODES[found[2]]}"
