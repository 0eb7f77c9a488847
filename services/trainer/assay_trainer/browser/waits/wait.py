"""A wait of a run, as a sentence with its remedy."""

import time
from dataclasses import dataclass

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@dataclass(frozen=True)
class RunWait:
    """A wait of one part of a run for another one.

    `since` is in seconds since the epoch, None if unknown. `fix` is empty if nothing needs a
    change.
    """

    waiter: str
    awaited: str
    message: str
    fix: str = ""
    since: float | None = None

    def told(self, now: float) -> str:
        """Return the sentence for people."""
        since = "" if self.since is None else f" ({since_words(self.since, now)})"
        fix = f"; {self.fix}" if self.fix else ""
        return f"{self.message}{since}{fix}."


def since_words(since: float, now: float) -> str:
    """Return a time with how long ago it was."""
    clock = time.strftime(
        "%H:%M:%S" if now - since < _DAY else "%Y-%m-%d %H:%M:%S", time.localtime(since)
    )
    return f"since {clock}, {duration_words(max(0.0, now - since))}"


def duration_words(seconds: float) -> str:
    """Return a duration in its two largest units."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    for size, name, smaller, part in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name}" + (f" {rest} {part}" if rest else "")
    raise AssertionError("a minute is the smallest size")
