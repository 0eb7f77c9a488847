"""Lists of names in a sentence."""

from collections.abc import Sequence

_MOST_SHOWN = 5


def some_of(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    rest = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
