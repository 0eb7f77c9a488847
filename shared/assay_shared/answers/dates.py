"""Dates in the usual ways of writing them."""

import re
from datetime import date

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_MONTH = "(?P<month>" + "|".join(rf"{name[:3]}(?:{name[3:]})?" for name in _MONTHS) + r"|sept)\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_WAYS = tuple(
    re.compile(way, re.IGNORECASE)
    for way in (
        r"(?P<year>\d{4})([-/])(?P<number>\d{1,2})\2(?P<day>\d{1,2})",
        r"(?P<first>\d{1,2})([-/.])(?P<second>\d{1,2})\2(?P<year>\d{4})",
        rf"{_MONTH} {_DAY},? {_YEAR}",
        rf"{_DAY} (?:of )?{_MONTH},? {_YEAR}",
    )
)
_LOOKS_LIKE_ONE = re.compile(r"\d{4}\Z|\A\d{4}[-/]\d")


def iso_date(text: str) -> str | None:
    """The date that a plain text is, as 2024-03-05; None for anything else, and for one that may be
    two dates: 03/05/2024 is in March or in May."""
    if not _LOOKS_LIKE_ONE.search(text):
        return None
    found = next((found for way in _WAYS if (found := way.fullmatch(text)) is not None), None)
    if found is None:
        return None
    parts = found.groupdict()
    if "first" in parts:
        return _either(int(parts["year"]), int(parts["first"]), int(parts["second"]))
    month = parts.get("number") or _MONTHS.index(_full(parts["month"])) + 1
    return _valid(int(parts["year"]), int(month), int(parts["day"]))


def _full(month: str) -> str:
    return next(name for name in _MONTHS if name.startswith(month[:3].lower()))


def _either(year: int, first: int, second: int) -> str | None:
    """The date, if only one of the two may be the month."""
    possible = {_valid(year, first, second), _valid(year, second, first)} - {None}
    return possible.pop() if len(possible) == 1 else None


def _valid(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None
