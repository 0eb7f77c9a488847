"""Sets of real numbers and numerals of a base, in their usual spellings."""

import re
from collections.abc import Callable

from assay_shared.answers.conditions import all_but
from assay_shared.answers.formulas.latex import CLOSE, OPEN
from assay_shared.answers.values.values import Formula, Named, Numeral, Several, Value

_REALS = r"\mathbb{R}"
#: All real numbers but some, and all numbers with a property.
_WITHOUT = re.compile(
    r"(?:\\mathbb\{R\}|\(-\\infty,\s?\\infty\))\s?(?:\\setminus|-)\s?\\\{(.+)\\\}", re.DOTALL
)
_WITH = re.compile(
    r"\\\{\s?([A-Za-z])\s?(?:\\in\s?\\mathbb\{R\})?\s?(?:\||:)\s?(.+)\\\}", re.DOTALL
)
_REALS_WITHOUT = re.compile(r"\\mathbb\{R\}\s?-(?=\s?[(\[])")
#: ]a, b[ excludes its ends.
_OUTWARD = re.compile(r"([\][(])([^][(),;]+)[,;]([^][(),;]+)([\][)])")
_BASES = (
    *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen"),
)
_BASE_OF = {name: base for base, name in enumerate(_BASES, 2)}
_NUMERAL = re.compile(
    rf"(\d[0-9A-Fa-f]*+)(\.[0-9A-Fa-f]+)?\s?_\s?\{{?[\s({OPEN}{CLOSE}]*+(?:base[\s{OPEN}{CLOSE}-]*+)?+"
    rf"(\d\d?+|{'|'.join(_BASES)})[\s){OPEN}{CLOSE}]*+\}}?[\s{CLOSE}]*+"
)


def set_of_reals(text: str, value_of: Callable[[str], Value]) -> Value | None:
    """Return the intervals of a set of real numbers; None for any other text."""
    if text == _REALS:
        return all_but([])
    if text.startswith(_REALS) and _REALS_WITHOUT.match(text):
        return value_of(_REALS_WITHOUT.sub(r"\\mathbb{R}\\setminus ", text, count=1))
    if text[:1] == "{" and text[-1:] == "}" and ("|" in text or ":" in text):
        return _with_property(f"\\{text[:-1]}\\}}", value_of)
    if text[:1] != "]" and not text.endswith(("\\}", "[")):
        return None
    without = _WITHOUT.fullmatch(text)
    if without is not None:
        is_flat = set("([").isdisjoint(without[1])
        return all_but([value_of(point) for point in without[1].split(",")]) if is_flat else None
    turned = _OUTWARD.sub(_turned, text) if text[:1] == "]" or text[-1:] == "[" else text
    return value_of(turned) if turned != text else _with_property(text, value_of)


def _turned(found: re.Match[str]) -> str:
    opened = {"]": "("}.get(found[1], found[1])
    closed = {"[": ")"}.get(found[4], found[4])
    return f"{opened}{found[2]},{found[3]}{closed}"


def _with_property(text: str, value_of: Callable[[str], Value]) -> Value | None:
    """Return the values with the property in a set's text, {x | x > 3}; None for any other text."""
    found = _WITH.fullmatch(text)
    value = value_of(found[2]) if found is not None else None
    if found is None or not isinstance(value, Named) or not value.is_member:
        return None
    return value.value if found[1] in value.names else None


def braced(parts: list[str], value_of: Callable[[str], Value], is_plain: bool) -> Value:
    """Return the set of the parts; a set with the empty set in it is not empty.

    Plain braces, as in {1,2}, around a single value may be a group in TeX, but {1} in {{1},{2}} is
    an element.
    """
    if not parts:
        return Formula("\\emptyset")
    if is_plain and len(parts) == 1 and not parts[0].startswith("{"):
        return value_of(parts[0])
    items = tuple(value_of(part) for part in parts)
    if is_plain:
        items = tuple(
            Several((item,), "{") if part[0] == "{" and not isinstance(item, Several) else item
            for part, item in zip(parts, items, strict=True)
        )
    return Several(items, "{")


def numeral_of(text: str) -> Numeral | None:
    """Return the numeral of a text with a base, as 1010_2; None for any other text."""
    found = _NUMERAL.fullmatch(text) if "_" in text else None
    if found is None:
        return None
    digits = found[1].lstrip("0") + (found[2] or "").rstrip("0")
    base = _BASE_OF.get(found[3]) or int(found[3])
    if not 2 <= base <= 16 or any(int(digit, 16) >= base for digit in digits if digit != "."):
        return None
    return Numeral(digits, base)
