"""Regular expressions of tasks: at once where they are quick, else in a worker process."""

from functools import lru_cache

import regex

from assay_shared.errors import InvalidInput

_MAX_LENGTH = 2000
#: The function for `Workers.call`.
FINDS = "assay_reward.answers.regex:finds"
#: What takes less is not worth another process.
_AT_ONCE_S = 0.001


@lru_cache(maxsize=1024)
def compiled(pattern: str, field: str) -> "regex.Pattern[str]":
    """The expression.

    Raises:
        InvalidInput: it is none, or too long; names `field`.
    """
    if len(pattern) > _MAX_LENGTH:
        raise InvalidInput(f"a pattern may have {_MAX_LENGTH} characters", field=field)
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise InvalidInput(f"not a regular expression: {error}", field=field) from None


def finds_at_once(pattern: "regex.Pattern[str]", text: str, *, whole: bool) -> bool | None:
    """Whether the expression is in the text, or is the `whole` text; None if that takes long."""
    match = pattern.fullmatch if whole else pattern.search
    try:
        return match(text, timeout=_AT_ONCE_S) is not None
    except TimeoutError:
        return None


def finds(pattern: str, text: str, whole: bool) -> bool:
    """The same in a worker process, which has a limit."""
    expression = regex.compile(pattern)
    return (expression.fullmatch(text) if whole else expression.search(text)) is not None
