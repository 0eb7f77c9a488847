"""Regular expressions of tasks: quick matches at once, slow matches in a worker process."""

from functools import lru_cache

import regex

from assay_shared.errors import InvalidInput

_MAX_LENGTH = 2000
#: The function for `Workers.call`.
FINDS = "assay_reward.answers.regex:finds"
#: A match within this time is not worth another process.
_AT_ONCE_S = 0.001


@lru_cache(maxsize=1024)
def compiled(pattern: str, field: str) -> "regex.Pattern[str]":
    """Return the compiled expression.

    Raises:
        InvalidInput: the pattern is not a regular expression, or too long; names `field`.
    """
    if len(pattern) > _MAX_LENGTH:
        raise InvalidInput(f"a pattern may have {_MAX_LENGTH} characters", field=field)
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise InvalidInput(f"not a regular expression: {error}", field=field) from None


def finds_at_once(pattern: "regex.Pattern[str]", text: str, *, whole: bool) -> bool | None:
    """Return True if the expression matches in the text (all of it for `whole`); None if slow."""
    match = pattern.fullmatch if whole else pattern.search
    try:
        return match(text, timeout=_AT_ONCE_S) is not None
    except TimeoutError:
        return None


def finds(pattern: str, text: str, whole: bool) -> bool:
    """Return True if the expression matches; runs in a worker process, under its limit."""
    expression = regex.compile(pattern)
    return (expression.fullmatch(text) if whole else expression.search(text)) is not None
