"""Regular expressions with a time limit, in threads that leave the loop free."""

import asyncio
from functools import lru_cache

import regex

from assay_shared.errors import InvalidInput, TimedOut

_MAX_LENGTH = 2000
#: What takes less is not worth a thread.
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


async def finds(pattern: "regex.Pattern[str]", text: str, *, whole: bool, timeout_s: float) -> bool:
    """Whether the expression is in the text, or is the `whole` text.

    Raises:
        TimedOut: it cannot be told in time.
    """
    match = pattern.fullmatch if whole else pattern.search
    try:
        return match(text, timeout=_AT_ONCE_S) is not None
    except TimeoutError:
        pass
    try:
        found = await asyncio.to_thread(match, text, timeout=timeout_s, concurrent=True)
    except TimeoutError:
        raise TimedOut(f"no match of a pattern within {timeout_s} s") from None
    return found is not None
