"""Numbers, the same in both forms."""

import math

from assay_reward.workflows.language.problems import ProblemKind, refuse, shown
from assay_reward.workflows.language.tree import NumberValue, Position

MAX_NUMBER = 1_000_000_000
_MAX_DIGITS = 32


def number_from(source: str, position: Position) -> NumberValue:
    """Return the number of a decimal source; a whole one is an int.

    Raises:
        InvalidWorkflow: it is too long or too large.
    """
    value = float(source) if len(source) <= _MAX_DIGITS else math.inf
    if not abs(value) <= MAX_NUMBER:
        what = f"{shown(source, 20)} is too large"
        raise refuse(ProblemKind.LIMIT, what, position, f"numbers are at most {MAX_NUMBER}")
    return NumberValue(int(value) if value.is_integer() else value, position=position)


def number_text(value: int | float) -> str:
    """Return the source of a number."""
    return repr(value)
