"""Numbers with units, currencies and percent signs: 5 km, $5, 50%, 1,000, also in LaTeX."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from assay_shared.answers.formulas.latex import CLOSE, DOLLAR, OPEN, plain
from assay_shared.answers.remark_words import DENYING_VERBS, NUMERALS
from assay_shared.answers.values.numbers import leading_number
from assay_shared.answers.values.units import Unit, parse_unit

_CURRENCIES = f"$€£¥{DOLLAR}"
#: Words to multiply the number before them.
SCALES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 10**3,
    "myriad": 10**4,
    "lakh": 10**5,
    "lakhs": 10**5,
    "million": 10**6,
    "crore": 10**7,
    "crores": 10**7,
    "billion": 10**9,
    "trillion": 10**12,
    "quadrillion": 10**15,
    "quintillion": 10**18,
}
_SCALED = re.compile(rf"[\s{OPEN}]*+({'|'.join(SCALES)})\b{CLOSE}?", re.IGNORECASE)
#: The same at the end of a text only: otherwise "7 gross tons" would not be tons.
_LAST_SCALES = {"score": 20, "gross": 144, "tens": 10, "dozens": 12, "googol": 10**100}
_LAST_SCALED = re.compile(rf"[\s{OPEN}]*+({'|'.join(_LAST_SCALES)})[\s{CLOSE}.]*+\Z", re.IGNORECASE)
#: Shares, in percent.
SHARES = {
    "per cent": Fraction(1),
    "pct": Fraction(1),
    "percents": Fraction(1),
    "per mille": Fraction(1, 10),
    "permille": Fraction(1, 10),
    "permil": Fraction(1, 10),
    "‰": Fraction(1, 10),
    "basis points": Fraction(1, 100),
    "basis point": Fraction(1, 100),
    "bps": Fraction(1, 100),
    "ppm": Fraction(1, 10_000),
    "ppb": Fraction(1, 10_000_000),
}
_SHARE = re.compile(rf"[\s{OPEN}]*+({'|'.join(SHARES)})[\s{CLOSE}.]*+\Z", re.IGNORECASE)
_SIGN_WORD = re.compile(
    rf"[\s{OPEN}]*+(?:minus|negative)[\s{OPEN}{CLOSE}]++(?=[\d.\\$])", re.IGNORECASE
)
_START = re.compile(
    rf"(?P<sign>[-+]?)\s?(?P<currency>[{_CURRENCIES}]?)\s?(?P<inner>[-+]?)\s?(?=[\d.\\])"
)
_FIRST_WORD = re.compile(rf"[\s{OPEN}]*+([A-Za-z]++)")
#: Words that may also be units are left to the units.
_NUMERALS = (NUMERALS | DENYING_VERBS) - frozenset(
    ["percent", "squared", "cubed", "thirds", "half", "hundred"]
)
#: Between a quantity and the next smaller one: 1 hour and 30 minutes.
_NEXT = re.compile(
    rf"(?:(?<=[A-Za-z{CLOSE}])|(?<=[A-Za-z{CLOSE}]\.))(?:,? and | ?, ?| )\s*+(?=\d)"
    rf"|(?<={CLOSE})(?=\d)"
)
_COMPOUNDS = frozenset(("time", "length", "mass", "dollars", "months", "volume"))
_MAX_PARTS = 4
_MAX_LENGTH = 200


@dataclass(frozen=True)
class Quantity:
    """A number with its unit, if it has one."""

    value: Fraction
    unit: Unit | None = None

    def equals(self, reference: "Quantity") -> bool | None:
        """Return True if this answer equals the reference, None if the units leave it open.

        Known units of the same dimension are converted. Units of different dimensions, and two
        different unknown units, decide nothing. An answer may omit the reference's unit: both 50
        and 0.5 equal 50%, but 0.5 does not equal 0.5%, because it would be a share. If the
        reference has no unit, the answer may name the counted or measured things. A percent or
        degree sign is not such a name, because it makes another number: 50% is 0.5.
        """
        if self.unit is None or reference.unit is None:
            return self._equals_bare(reference)
        if self.unit.is_known and self.unit.powers == reference.unit.powers:
            return self.value * self.unit.size == reference.value * reference.unit.size
        return self.value == reference.value if self.unit.text == reference.unit.text else None

    def _equals_bare(self, reference: "Quantity") -> bool | None:
        unit = self.unit or reference.unit
        if unit is None:
            return self.value == reference.value
        if not unit.is_sure:
            return None
        if self.unit is None:
            same = self.value == reference.value
            if not unit.is_percent:
                return same
            return (same and abs(self.value) >= 1) or self.value == reference.value / 100
        if unit.is_percent and self.value / 100 == reference.value:
            return True
        if self.value == reference.value:
            return None if unit.changes_number else True
        return False


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity | None:
    """Return the exact value and the unit of a text with just a number; None for any other text."""
    if len(text) > _MAX_LENGTH:
        return None
    return quantity_of(plain(text))


@lru_cache(maxsize=4096)
def quantity_of(text: str) -> Quantity | None:
    """Return `parse_quantity` of a plain text."""
    if len(text) > _MAX_LENGTH:
        return None
    text = _SIGN_WORD.sub("-", text, count=1)
    start = _START.match(text)
    if start is None or (start["sign"] and start["inner"]):
        return None
    rest = text[start.end() :]
    found = leading_number(rest)
    if found is None:
        return None
    value, tail = found[0], rest[found[1] :]
    if _NEXT.search(tail):
        return None if start["currency"] else _compound(text)
    value, tail = _scaled(value, tail)
    if "-" in (start["sign"], start["inner"]):
        value = -value
    return _with_unit(value, start["currency"], tail)


def _scaled(value: Fraction, tail: str) -> tuple[Fraction, str]:
    """Return the value times the numeral after it, and the rest of the text."""
    if not tail:
        return value, tail
    scaled = _SCALED.match(tail)
    if scaled is not None:
        return value * SCALES[scaled[1].lower()], tail[scaled.end() :]
    scaled = _LAST_SCALED.match(tail)
    if scaled is not None:
        return value * _LAST_SCALES[scaled[1].lower()], ""
    share = _SHARE.match(tail)
    if share is not None:
        return value * SHARES[" ".join(share[1].lower().split())], "%"
    return value, tail


def _with_unit(value: Fraction, currency: str, tail: str) -> Quantity | None:
    unit = None
    if tail.strip():
        word = _FIRST_WORD.match(tail)
        if word is not None and word[1].lower() in _NUMERALS:
            return None
        unit = parse_unit(tail, abs(value) == 1)
    if unit is None and tail.strip():
        return None
    if not currency:
        return Quantity(value, unit)
    money = parse_unit("$" if currency == DOLLAR else currency)
    if unit is not None and money is not None and unit.powers != money.powers:
        return None
    return Quantity(value, money)


def _compound(text: str) -> Quantity | None:
    """Return the sum of quantities of the same dimension, each below the previous unit, or None."""
    parts = [quantity_of(part.strip()) for part in _NEXT.split(text, _MAX_PARTS)]
    units = [part.unit for part in parts if part is not None and part.unit is not None]
    if len(units) < len(parts) or not all(unit.is_known for unit in units):
        return None
    values = [part.value * unit.size for part, unit in zip(parts, units, strict=True) if part]
    ((dimension, power), *more) = units[0].powers
    if more or power != 1 or dimension not in _COMPOUNDS:
        return None
    for value, unit, before in zip(values[1:], units[1:], units, strict=False):
        if unit.powers != before.powers or not 0 <= value < before.size:
            return None
    unit = Unit(text, units[0].powers, is_sure=False)
    return Quantity(sum(values, Fraction(0)), unit) if values[0] > 0 else None
