"""Checks of a judge's grading scales."""

from collections.abc import Sequence

#: A schema lists each grade of a scale, and a model tells only a limited number apart.
MAX_STEPS = 100
#: Keys of a graded reply other than its grades.
_RESERVED = frozenset({"reason", "confidence"})


def check_scale(name: str, low: int, high: int) -> None:
    """Check the name and the scale of a criterion.

    Raises:
        ValueError: the name is reserved, or the scale does not go up or has too many steps.
    """
    if high <= low:
        raise ValueError(f"the scale of {name} must go up: high must be above low")
    if high - low > MAX_STEPS:
        raise ValueError(f"the scale of {name} must have at most {MAX_STEPS} steps")
    if name.lower() in _RESERVED:
        raise ValueError(f"a criterion must not be called {name}: a reply already has this key")


def check_distinct(names: Sequence[str]) -> None:
    """Check that criteria have different names: a reply has a single grade for each name.

    Raises:
        ValueError: two names are equal, ignoring case.
    """
    lower = [name.lower() for name in names]
    for name in lower:
        if lower.count(name) > 1:
            raise ValueError(f"two criteria are called {name}")
