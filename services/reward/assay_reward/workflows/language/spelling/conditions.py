"""Writes conditions, which both forms of the language spell alike."""

from collections.abc import Callable

from assay_reward.workflows.language.tree import (
    AllOf,
    AnyOf,
    Compared,
    Containment,
    Expression,
    Negation,
)

_CONDITIONS = (AnyOf, AllOf, Negation, Compared, Containment)


def condition_text(value: Expression, written: Callable[[Expression], str]) -> str:
    """Return a condition; `written` writes every value that is not a condition."""

    def inside(part: Expression, *looser: type) -> str:
        text = condition_text(part, written)
        return f"({text})" if isinstance(part, looser) else text

    def operand(part: Expression) -> str:
        return inside(part, *_CONDITIONS)

    match value:
        case AnyOf(conditions=conditions):
            return " or ".join(inside(one, AnyOf) for one in conditions)
        case AllOf(conditions=conditions):
            return " and ".join(inside(one, AnyOf, AllOf) for one in conditions)
        case Negation(condition=Containment(item=item, container=container)):
            return f"{operand(item)} not in {operand(container)}"
        case Negation(condition=condition):
            return f"not {inside(condition, AnyOf, AllOf)}"
        case Compared(sign=sign, left=left, right=right):
            return f"{operand(left)} {sign} {operand(right)}"
        case Containment(item=item, container=container):
            return f"{operand(item)} in {operand(container)}"
        case _:
            return written(value)
