"""Dates in their usual spellings."""

import re
from datetime import date

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
_MONTH = "(?P<month>" + "|".join(rf"{name[:3]}(?:{name[3:]})?" for name in _MONTHS) + r"|sept)\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_MAX_LENGTH = 60
_WAYS = tuple(
    re.compile(way, re.IGNORECASE)
    for way in (
        r"(?P<year>\d{4})([-/])(?P<number>\d{1,2})\2(?P<day>\d{1,2})",
        r"(?P<first>\d{1,2})([-/.])(?P<second>\d{1,2})\2(?P<year>\d{4})",
        rf"{_MONTH} (?:the )?{_DAY},? {_YEAR}",
        rf"(?:the )?{_DAY} (?:of )?{_MONTH},? {_YEAR}",
    )
)
_LOOKS_LIKE_ONE = re.compile(r"\d{4}\Z|\A\d{4}[-/]\d")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = re.compile(
    "("
    + "|".join(rf"{name[:3]}(?:{name[3:]})?" for name in _WEEKDAYS)
    + r"|tues|thurs?)\.?,? (?=\w)",
    re.IGNORECASE,
)
_DAYS = tuple(name[:3] for name in _WEEKDAYS)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:, (\d))?")


def iso_date(text: str) -> str | None:
    """Return the date of a plain text, as 2024-03-05, or as 2024-03-05, 1 with a weekday's number.

    Return None for any other text, and for an ambiguous date: 03/05/2024 is in March or in May.
    """
    if not _LOOKS_LIKE_ONE.search(text):
        return None
    weekday = _WEEKDAY.match(text)
    if weekday is not None:
        rest = text[weekday.end() :]
        date = None if len(text) > _MAX_LENGTH or _WEEKDAY.match(rest) else iso_date(rest)
        return f"{date[:10]}, {_DAYS.index(weekday[1][:3].lower())}" if date else None
    found = next((found for way in _WAYS if (found := way.fullmatch(text)) is not None), None)
    if found is None:
        return None
    parts = found.groupdict()
    if "first" in parts:
        return _either(int(parts["year"]), int(parts["first"]), int(parts["second"]))
    month = parts.get("number") or _MONTHS.index(_full(parts["month"])) + 1
    return _valid(int(parts["year"]), int(month), int(parts["day"]))


def same_date(one: str, other: str) -> bool:
    """Return True if two dates of `iso_date` are the same; either may omit the weekday."""
    first, second = _ISO.fullmatch(one), _ISO.fullmatch(other)
    if first is None or second is None or first[1] != second[1]:
        return False
    return first[2] == second[2] or None in (first[2], second[2])


def _full(month: str) -> str:
    return next(name for name in _MONTHS if name.startswith(month[:3].lower()))


def _either(year: int, first: int, second: int) -> str | None:
    """Return the date, if only a single order of day and month is possible, else None."""
    possible = {_valid(year, first, second), _valid(year, second, first)} - {None}
    return possible.pop() if len(possible) == 1 else None


def _valid(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None
