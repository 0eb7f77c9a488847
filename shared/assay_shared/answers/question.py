"""The unit requested by a question, for a reference without it."""

import re

from assay_shared.answers.formulas.latex import plain
from assay_shared.answers.values.quantity import parse_quantity

_MAX_SEARCHED = 2000
_ANY_SIGN = re.compile(r"%|°|\\circ|\\degree|percent|degree", re.IGNORECASE)
#: The sign in an answer, the words for it in a question, and the sign in LaTeX.
_SIGNS = (
    (
        re.compile(r"%|\bpercent", re.IGNORECASE),
        re.compile(
            r"\b(?:what|which|how many|as an?|in|overall|find the|determine the)\b[^.?!]{0,40}"
            r"\bpercent"
            r"|\bpercentage\b[^.!]*\?|_\s?\\?%",
            re.IGNORECASE,
        ),
        "\\%",
    ),
    (
        re.compile(r"°|\\circ\b|\bdegree|\\degree", re.IGNORECASE),
        re.compile(r"\bdegrees?\b(?! (?:Celsius|Fahrenheit|of freedom))|\bangle", re.IGNORECASE),
        "^\\circ",
    ),
)


def asked_for(reference: str, question: str, answer: str) -> str:
    """Return the reference, with a percent or degree sign if answer and question both have it.

    Only a plain number takes a sign.
    """
    if not question or not _ANY_SIGN.search(answer):
        return reference
    for sign, asks, written in _SIGNS:
        if not sign.search(answer) or sign.search(reference):
            continue
        number = parse_quantity(reference)
        if number is not None and number.unit is None and asks.search(question[-_MAX_SEARCHED:]):
            return f"{plain(reference)}{written}"
    return reference
