"""Limits of a formula's size, checked on its text before any computation."""

import re

from assay_shared.answers.formulas.latex import plain, words_of
from assay_shared.answers.formulas.magnitude import TooLargeToCompute, check_magnitude

_MAX_LENGTH = 2000
_MAX_DIGITS = 400
_MAX_DEPTH = 40
_MAX_ITEMS = 200
_MAX_POWERS = 100
_DIGITS = re.compile(r"\d++")
_OPEN, _CLOSE = "([{", ")]}"


def why_too_large(formula: str) -> str | None:
    """Return the reason for refusing a formula in LaTeX as too large; None if there is no reason.

    Numbers are bounded by their digits and by the digits of their powers, factorials and binomials.
    Texts are bounded by their length, nesting and commas. Only rough sizes are computed.
    """
    if len(formula) > _MAX_LENGTH:
        return f"it has more than {_MAX_LENGTH} characters"
    if any(len(run) > _MAX_DIGITS for run in _DIGITS.findall(formula)):
        return f"a number has more than {_MAX_DIGITS} digits"
    if formula.count(",") + formula.count("&") >= _MAX_ITEMS:
        return f"it lists more than {_MAX_ITEMS} values"
    if _depth(formula) > _MAX_DEPTH:
        return f"it nests deeper than {_MAX_DEPTH}"
    if _nests_factorials(formula):
        return "a factorial of a factorial"
    if formula.count("^") + formula.count("**") > _MAX_POWERS:
        return f"it has more than {_MAX_POWERS} powers"
    try:
        check_magnitude(words_of(plain(formula)))
    except TooLargeToCompute as error:
        return str(error)
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
