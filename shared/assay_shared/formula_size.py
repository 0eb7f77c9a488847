"""How large a formula's value may become, told from its text before anything computes it."""

import math
import re

_MAX_LENGTH = 2000
_MAX_DIGITS = 400
_MAX_DEPTH = 40
_MAX_ITEMS = 200
#: Digits of a power of two numbers, and what anything else may be raised to.
_MAX_POWER_DIGITS = 20_000
_MAX_EXPONENT = 5_000
_MAX_POWERS = 100
_MAX_TOWER = 6
_MAX_FACTORIAL = 5_000
_DIGITS = re.compile(r"\d++")
_OPEN, _CLOSE = "([{", ")]}"
_POWER = re.compile(r"(\d++)?[)\]}\s]*+\^")
_FACTORIAL = re.compile(r"(\d++)[)\]}\s]*+!")
_HUGE = math.inf


def why_too_large(formula: str) -> str | None:
    """What is too large about a formula in LaTeX; None where nothing is.

    Numbers are bounded by their digits and those of their powers and factorials, texts by their
    length, their nesting and their commas. It reads the text a few times, and computes nothing.
    """
    if len(formula) > _MAX_LENGTH:
        return f"it has more than {_MAX_LENGTH} characters"
    if any(len(run) > _MAX_DIGITS for run in _DIGITS.findall(formula)):
        return f"a number has more than {_MAX_DIGITS} digits"
    if formula.count(",") + formula.count("&") >= _MAX_ITEMS:
        return f"it lists more than {_MAX_ITEMS} values"
    if _depth(formula) > _MAX_DEPTH:
        return f"it nests deeper than {_MAX_DEPTH}"
    if any(float(number) > _MAX_FACTORIAL for number in _FACTORIAL.findall(formula)):
        return f"a factorial of more than {_MAX_FACTORIAL}"
    if _nests_factorials(formula):
        return "a factorial of a factorial"
    powers = formula.replace("**", "^")
    if powers.count("^") > _MAX_POWERS:
        return f"it has more than {_MAX_POWERS} powers"
    for found in _POWER.finditer(powers):
        exponent = _value(powers, found.end())
        if _is_too_high(found.group(1), exponent):
            return "a power is too high"
    return None


def _nests_factorials(formula: str) -> bool:
    bare = "".join(formula.split())
    return any(f"!{close}!" in bare for close in ("}", ")", "]", "\\right)", "\\right]"))


def _depth(formula: str) -> int:
    depth = deepest = 0
    for character in formula:
        if character in _OPEN:
            depth += 1
            deepest = max(deepest, depth)
        elif character in _CLOSE:
            depth -= 1
    return deepest


def _is_too_high(base: str | None, exponent: float) -> bool:
    if base is None:
        return exponent > _MAX_EXPONENT
    digits = exponent * max(1.0, math.log10(max(1.0, float(base[:300]))))
    return digits > _MAX_POWER_DIGITS


def _value(formula: str, at: int, level: int = 0) -> float:
    """The exponent that begins at a place, as far as it is a number or a tower of numbers; else 0.

    An exponent with several numbers counts as their product, a fraction as its larger number.
    """
    text = _exponent_at(formula, at)
    numbers = [min(float(digits), 1e300) for digits in _DIGITS.findall(text.partition("^")[0])]
    if not numbers:
        return 0.0
    value = math.prod(max(1.0, number) for number in numbers)
    if "/" in text or "frac" in text:
        value = max(numbers)
    _, tower, above = text.partition("^")
    if not tower:
        return value
    if level == _MAX_TOWER:
        return _HUGE
    height = _value(above, 0, level + 1)
    try:
        return float(value**height) if height else value
    except OverflowError:
        return _HUGE


def _exponent_at(formula: str, at: int) -> str:
    """The text in the braces that begin at a place; without braces, to the next sign."""
    text = formula[at:].lstrip()
    if not text.startswith(tuple(_OPEN)):
        found = re.match(r"-?(?:\d(?:\d*+(?=\^|$))?+|\\?\w)(?:\^.*+)?+", text, re.DOTALL)
        return found.group() if found else ""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in _OPEN) - (character in _CLOSE)
        if depth == 0:
            return text[1:place]
    return text[1:]
