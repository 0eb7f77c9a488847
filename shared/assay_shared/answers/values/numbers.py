"""Plain numbers, exactly: 1,234.5  1/2  3 1/2  1.5e3  2 \\cdot 10^{-3}  0.\\overline{3} 0.333..."""

import re
from fractions import Fraction

_DECIMAL = r"(?:\d{1,3}(?:,\d{3})++(?!\d)|\d{1,3}(?:[ \u00a0\u202f]\d{3})++(?![\d/])|\d++)"
_NUMBER = re.compile(
    rf"""
    (?:(?P<whole>\d++)\s?(?=\\frac\s*+(?:\{{\s*+)?+\d|\d++/))?+
    (?: \\frac\s*+ (?: \{{\s*+(?P<top>-?\d++)\s*+\}} | (?P<top1>\d) )
        \s*+ (?: \{{\s*+(?P<bottom>\d++)\s*+\}} | (?P<bottom1>\d) )
      | (?P<repeated>\d*+\.\d*+)\\(?:overline|bar)\s*+\{{(?P<period>\d++)\}}
      | (?P<begun>\d*+\.)(?P<digits>\d{{3,60}}+)\s?(?:\.\.\.|\\[lc]?dots\b)
      | (?P<units>\d++\.)\((?P<bracketed>\d++)\)
      | (?P<decimal>{_DECIMAL}(?:\.\d++)?+|\.\d++)
        (?: /(?P<below>\d++)
          | [eE](?P<exponent>[-+]?\d{{1,3}}+)
          | \s*+(?:\\cdot|\*|x)\s*+10\s*+\^\s*+
            (?:\{{\s*+(?P<ten>[-+]?\d{{1,3}}+)\s*+\}}|(?P<ten1>-?\d{{1,3}}+))
        )?+
    )
    """,
    re.VERBOSE,
)
#: Digits ending with the same digits at least three times: the digits repeat forever.
_GOES_ON = re.compile(r"(\d*?)(\d{1,20}?)\2{2,}")
#: Longer digit strings are not answers, and converting them takes quadratic time.
_MAX_DIGITS = 100
_MAX_EXPONENT = 300


def leading_number(text: str) -> tuple[Fraction, int] | None:
    """Return the value and the end of an unsigned number at the start of a plain text, or None."""
    found = _NUMBER.match(text)
    if found is None or found.end() > _MAX_DIGITS:
        return None
    value = _value(found)
    return None if value is None else (value, found.end())


def parse_number(text: str) -> Fraction | None:
    """Return the exact value of a text with just a number; None for any other text."""
    plain = text.strip()
    sign = -1 if plain.startswith("-") else 1
    if plain[:1] in ("-", "+"):
        plain = plain[1:].lstrip()
    found = leading_number(plain)
    return sign * found[0] if found is not None and found[1] == len(plain) else None


def _value(found: re.Match[str]) -> Fraction | None:
    if found["repeated"] is not None:
        return _repeating(found["repeated"], found["period"])
    if found["decimal"] is not None:
        return _decimal(found)
    if found["units"] is not None:
        return _repeating(found["units"], found["bracketed"])
    if found["begun"] is not None:
        begun = _GOES_ON.fullmatch(found["digits"])
        return _repeating(found["begun"] + begun[1], begun[2]) if begun else None
    top, bottom = found["top"] or found["top1"], found["bottom"] or found["bottom1"]
    if int(bottom) == 0 or (found["whole"] and top.startswith("-")):
        return None
    return Fraction(int(top), int(bottom)) + int(found["whole"] or 0)


def _decimal(found: re.Match[str]) -> Fraction | None:
    value = Fraction(re.sub(r"[,\s]", "", found["decimal"]))
    if found["below"] is not None:
        if int(found["below"]) == 0 or (found["whole"] and "." in found["decimal"]):
            return None
        value /= int(found["below"])
    elif found["whole"] is not None:
        return None
    exponent = int(found["exponent"] or found["ten"] or found["ten1"] or 0)
    if abs(exponent) > _MAX_EXPONENT:
        return None
    return value * Fraction(10) ** exponent + int(found["whole"] or 0)


def _repeating(start: str, period: str) -> Fraction:
    whole, _, digits = start.partition(".")
    fixed = Fraction(int(whole + digits or 0), 10 ** len(digits))
    return fixed + Fraction(int(period), 10 ** len(digits) * (10 ** len(period) - 1))
