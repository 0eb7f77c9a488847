"""Plain numbers in texts, exactly."""

import re
from fractions import Fraction

_WHOLE = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
_NUMBER = re.compile(rf"[-+]?(?:{_WHOLE}(?:\.\d+)?|\.\d+)(?:/[1-9]\d*)?")
#: Longer digit strings are no answers, and quadratic to convert.
_MAX_DIGITS = 100


def parse_number(text: str) -> Fraction | None:
    """The exact value of a text that is one number; None if it is anything else.

    Thousands separators, a currency sign, a percent sign and a closing full stop are passed over;
    a fraction counts if both its parts are plain: 1,234.50  $5  50%  -7.  1/2
    """
    plain = text.strip().rstrip(".").strip("$€£ ").removesuffix("%").strip()
    if len(plain) > _MAX_DIGITS or not _NUMBER.fullmatch(plain):
        return None
    top, _, bottom = plain.replace(",", "").partition("/")
    return Fraction(top) / int(bottom or 1)


def last_number(text: str) -> str | None:
    """The last number that stands in a text, as it is written."""
    found = _NUMBER.findall(text)
    return found[-1] if found else None
