"""The scales that a judge grades on: what may be one."""

from collections.abc import Sequence

#: A schema lists each grade of a scale, and a model tells only so many apart.
MAX_STEPS = 100
#: What a graded reply has beside its grades.
_RESERVED = frozenset({"reason", "confidence"})


def check_scale(name: str, low: int, high: int) -> None:
    """Raises ValueError for a criterion whose name or scale cannot be used."""
    if high <= low:
        raise ValueError(f"the scale of {name} must go up: high must be above low")
    if high - low > MAX_STEPS:
        raise ValueError(f"the scale of {name} must have at most {MAX_STEPS} steps")
    if name.lower() in _RESERVED:
        raise ValueError(f"a criterion must not be called {name}: a reply has that itself")


def check_distinct(names: Sequence[str]) -> None:
    """Raises ValueError for two criteria of one name: a reply has one grade for both."""
    lower = [name.lower() for name in names]
    for name in lower:
        if lower.count(name) > 1:
            raise ValueError(f"two criteria are called {name}")
