"""Sums that an answer writes out, as in 9 * 2 = 18."""

import re
from fractions import Fraction

_MAX_CHARS = 120
_SIGNS = {"\\times": "*", "\\cdot": "*", "×": "*", "·": "*", "\\div": "/", "÷": "/", "−": "-"}
_SIGN = re.compile(r"\\times|\\cdot|\\div|[×·÷−]")
_SPACE = re.compile(r"\\[,;:! ]|\\?\$|\s|(?<=\d),(?=\d{3}(?!\d))")
_NUMBER = r"\d{1,15}(?:\.\d{1,15})?"
_SUM = re.compile(rf"-?{_NUMBER}(?:[-+*/]{_NUMBER}){{0,12}}")
_TOKEN = re.compile(rf"[-+*/]|{_NUMBER}")
_NAME = re.compile(r"\s*\\?[A-Za-z]\w{0,10}\s*\Z")


def result_of(answer: str) -> str:
    """Return the last side of an equation if every side is a sum of the same value.

    A name may stand before the first sign: x = 9 * 2 = 18 is 18. Any other answer is returned as
    it is, for example 9 * 2 = 19 and 2x = 18.
    """
    if "=" not in answer or len(answer) > _MAX_CHARS:
        return answer
    sides = answer.strip().rstrip(".").split("=")
    values = [_value(side) for side in (sides[1:] if _NAME.match(sides[0]) else sides)]
    if len(values) < 2 or values[0] is None or any(value != values[0] for value in values):
        return answer
    return sides[-1].strip()


def _value(text: str) -> Fraction | None:
    """Return the value of a sum such as 9 * 2 + 1, without brackets; None for any other text."""
    bare = _SPACE.sub("", _SIGN.sub(lambda found: _SIGNS[found.group()], text))
    if _SUM.fullmatch(bare) is None:
        return None
    total, factor, sign, operator = Fraction(0), Fraction(0), 1, "+"
    for token in _TOKEN.findall(bare):
        if token in "+-*/":
            if token in "+-":
                total, factor, sign = total + sign * factor, Fraction(0), 1 if token == "+" else -1
            operator = token
            continue
        number = Fraction(token)
        if operator == "*":
            factor *= number
        elif operator == "/":
            if number == 0:
                return None
            factor /= number
        else:
            factor = number
    return total + sign * factor
