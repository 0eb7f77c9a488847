"""Reads the Retry-After header of another service: RFC 9110, section 10.2.3."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def read_retry_after(text: str, now: float) -> float | None:
    """Return the seconds to wait by a Retry-After header, or None if `text` cannot be read.

    The header holds a date or a number of seconds; some services send fractions. `now` is in Unix
    time.
    """
    if _SECONDS.fullmatch(text.strip()):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:  # HTTP's dates are in UTC
        date = date.replace(tzinfo=UTC)
    return max(0.0, date.timestamp() - now)
