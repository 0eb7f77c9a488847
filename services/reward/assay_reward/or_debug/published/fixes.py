"""Parsing of the sentences about repairs in published sets."""

import math
import re
from collections.abc import Callable

from pydantic import ValidationError

from assay_reward.or_debug.models.instance import DropRow, Edit, SetColumn, SetRow
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel
from assay_shared.errors import InvalidInput

NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d{1,3})?|inf)"
#: Solvers write a missing bound as a number of at least this size.
INFINITE = 1e20

Read = Callable[[re.Match[str], OptimizationModel], tuple[Edit, ...]]


def read_fix(text: str, model: OptimizationModel) -> tuple[Edit, ...]:
    """Return the edits described by a sentence.

    Raises: InvalidInput for an unknown form, or for rows and columns missing in `model`.
    """
    for form, read in FORMS:
        if match := form.fullmatch(text):
            try:
                return read(match, model)
            except ValidationError as error:
                told = error.errors()[0]["msg"]
                raise InvalidInput(told, field="ground_truth_fix") from None
    raise InvalidInput(f"a fix of an unknown form: {text[:160]!r}", field="ground_truth_fix")


def _turned(match: re.Match[str], model: OptimizationModel) -> tuple[Edit, ...]:
    row, was, should_be = model.row(match[1]), match[2], match[3]
    if row.sense != was or was == should_be:
        told = f"row {row.name} is to be turned from {was} to {should_be}, but it is {row.sense}"
        raise InvalidInput(told, field="ground_truth_fix")
    lower, upper = (row.upper, math.inf) if should_be == ">=" else (-math.inf, row.lower)
    return (SetRow(row=row.model_copy(update={"lower": lower, "upper": upper})),)


def _retyped(match: re.Match[str], model: OptimizationModel) -> tuple[Edit, ...]:
    changed = {"is_integer": True, "upper": _bound(match[2])}
    return (_set(model.column(match[1]), changed), _drop(match[3], model))


def _rescaled(match: re.Match[str], model: OptimizationModel) -> tuple[Edit, ...]:
    column, row = model.column(match[1]), model.row(match[2])
    amount = _bound(match[3])
    if not math.isfinite(amount) or amount == 0:
        raise InvalidInput(f"{amount} is not a coefficient", field="ground_truth_fix")
    terms = row.coefficients | {column.name: amount}
    return (SetRow(row=row.model_copy(update={"coefficients": terms})),)


def _removed(match: re.Match[str], model: OptimizationModel) -> tuple[Edit, ...]:
    return tuple(_drop(name, model) for name in re.split(r", | AND ", match[1]))


def _dropped(match: re.Match[str], model: OptimizationModel) -> tuple[Edit, ...]:
    return tuple(_drop(name, model) for name in match.groups())


def _bounded(match: re.Match[str], model: OptimizationModel) -> tuple[Edit, ...]:
    """Return the edit of a bound; the last two groups are its side and its value."""
    side = {"LB": "lower", "UB": "upper"}[match[2]]
    return (_set(model.column(match[1]), {side: _bound(match[3])}),)


def _widened(match: re.Match[str], model: OptimizationModel) -> tuple[Edit, ...]:
    row = model.row(match[1])
    if row.sense not in ("<=", ">="):
        raise InvalidInput(f"row {row.name} must have exactly one side", field="ground_truth_fix")
    side = "upper" if row.sense == "<=" else "lower"
    changed = row.model_dump() | {side: _bound(match[2])}
    return (SetRow(row=ModelRow.model_validate(changed)),)


def _drop(name: str, model: OptimizationModel) -> DropRow:
    return DropRow(name=model.row(name).name)


def _set(column: Column, changed: dict[str, float]) -> SetColumn:
    return SetColumn(column=Column.model_validate(column.model_dump() | changed))


def _bound(text: str) -> float:
    value = float(text)
    return math.copysign(math.inf, value) if abs(value) >= INFINITE else value + 0.0


#: By error type: A, B, C, D and E, F, G, H, I.
FORMS: tuple[tuple[re.Pattern[str], Read], ...] = (
    (re.compile(r"Change (\w+) from ([<>]=) back to ([<>]=)"), _turned),
    (re.compile(rf"Change (\w+) back to INTEGER with UB=({NUMBER}), remove (\w+)"), _retyped),
    (
        re.compile(rf"Change coefficient of (\w+) in (\w+) from {NUMBER} back to ({NUMBER})"),
        _rescaled,
    ),
    (
        re.compile(
            r"Remove (?:chain constraints:|contradicting constraint|BOTH constraints:)"
            r" (\w+(?:(?:, | AND )\w+)*)(?:\. [^\n]*)?"
        ),
        _removed,
    ),
    (re.compile(r"The root cause is constraint '(\w+)' which [^\n]*"), _dropped),
    (
        re.compile(
            r"CASCADING CONFLICT: IIS may show '(\w+)', but [^\n']* conflict with '(\w+)'\."
            r" Must remove BOTH constraints\b[^\n]*"
        ),
        _dropped,
    ),
    (
        re.compile(
            r"IIS-INCOMPLETE: [^\n]* ROOT CAUSE is the tightened (?:lower|upper) bound on"
            rf" '\w+' [^\n]*\. Restore (\w+)\.(LB|UB) = ({NUMBER})\b[^\n]*"
        ),
        _bounded,
    ),
    (
        re.compile(
            rf"OPTIMAL SELECTION: [^\x00]*\n  - CORRECT: RELAX (\w+) to RHS = ({NUMBER}) -> [^\n]*"
        ),
        _widened,
    ),
)
