"""Numbers with what stands beside them: 5 km, $5, 50%, 1,000 and their forms in LaTeX."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from assay_shared.numbers import parse_number

#: What is measured, how much of that dimension's own unit the unit is, and how it is written.
#: "Pounds" are of mass or of money, and so tell nothing.
_TABLE = (
    ("length", "1", "m meter meters metre metres"),
    ("length", "1000", "km kms kilometer kilometers kilometre kilometres"),
    ("length", "1/100", "cm centimeter centimeters centimetre centimetres"),
    ("length", "1/1000", "mm millimeter millimeters millimetre millimetres"),
    ("length", "1609.344", "mi mile miles"),
    ("length", "0.3048", "ft foot feet"),
    ("length", "0.0254", "inch inches"),
    ("length", "0.9144", "yd yard yards"),
    ("mass", "1", "g gram grams"),
    ("mass", "1000", "kg kgs kilogram kilograms"),
    ("mass", "1/1000", "mg milligram milligrams"),
    ("mass", "453.59237", "lb lbs"),
    ("mass", "28.349523125", "oz ounce ounces"),
    ("time", "1", "s sec secs second seconds"),
    ("time", "60", "min mins minute minutes"),
    ("time", "3600", "h hr hrs hour hours"),
    ("time", "86400", "day days"),
    ("time", "604800", "week weeks"),
    ("volume", "1", "l liter liters litre litres"),
    ("volume", "1/1000", "ml milliliter milliliters millilitre millilitres"),
    ("volume", "3.785411784", "gallon gallons"),
    ("speed", "1", "m/s"),
    ("speed", "5/18", "km/h"),
    ("speed", "0.44704", "mph"),
    ("dollars", "1", "$ dollar dollars usd"),
    ("dollars", "1/100", "¢ cent cents"),
    ("euros", "1", "€ euro euros eur"),
    ("sterling", "1", "£ gbp"),
    ("yen", "1", "¥ yen jpy"),
    ("angle", "1", "° degree degrees"),
    ("percent", "1", "% percent"),
)
_UNITS = {
    name: (dimension, Fraction(size)) for dimension, size, names in _TABLE for name in names.split()
}
_SCALES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
#: Words after a number that make it more than one number, or none.
_NO_UNITS = {"or", "and", "to", "not", "nor"}
_CURRENCY = r"[$€£¥]"
_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/[1-9]\d*)?|\.\d+"
_LETTERS = r"[^\W\d_]+"
_QUANTITY = re.compile(
    rf"(?P<sign>[-+]?)\s?(?P<currency>{_CURRENCY}?)\s?(?P<inner>[-+]?)(?P<whole>\d+\s(?=\d+/))?"
    rf"(?P<number>{_NUMBER})\s?(?P<unit>{_LETTERS}(?:[ /]{_LETTERS}){{0,2}}|[%°¢€£¥$]?)"
)
_KNOWN = "|".join(re.escape(name) for name in sorted(_UNITS, key=len, reverse=True))
_IN_TEXT = re.compile(
    rf"(?:(?<![\d)])[-+−])?{_CURRENCY}?(?:{_NUMBER})(?:\s(?:{'|'.join(_SCALES)})\b)?"
    rf"(?:\s?(?:{_KNOWN})(?!{_LETTERS}))?"
)
_SEPARATED = re.compile(r"(?<=\d)[ \u00a0\u202f](?=\d{3}(?!\d))")
_PLAIN = (
    (re.compile(r"\\[()\[\]]"), ""),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})"), "°"),
    (re.compile(r"\\(?=[%$])"), ""),
    (re.compile(r"\\[,;:! ]|~|\\q?quad"), " "),
    (re.compile(r"\\(?:text|mathrm|textbf|mathbf|mbox|operatorname)\s*\{([^{}]*)\}"), r" \1"),
    (re.compile("−"), "-"),
)
_MAX_LENGTH = 200


@dataclass(frozen=True)
class Quantity:
    """A number with its unit; empty where none is known."""

    value: Fraction
    unit: str = ""

    def equals(self, other: "Quantity") -> bool:
        """Whether both say the same.

        Where one side has no known unit the numbers decide; a percentage then also equals its
        hundredth. Known units are converted, and units of different things are never equal.
        """
        if not self.unit or not other.unit:
            percent = "percent" in (self._dimension, other._dimension)
            return self.value == other.value or (percent and self._share == other._share)
        return self._dimension == other._dimension and self._in_own == other._in_own

    @property
    def _dimension(self) -> str:
        return _UNITS[self.unit][0] if self.unit else ""

    @property
    def _in_own(self) -> Fraction:
        return self.value * _UNITS[self.unit][1]

    @property
    def _share(self) -> Fraction:
        return self.value / 100 if self._dimension == "percent" else self.value


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity | None:
    """The exact value and the unit of a text that is one number; None if it is anything else.

    Up to three words that are no known unit may follow the number: 5 red apples.
    """
    if len(text) > _MAX_LENGTH:
        return None
    found = _QUANTITY.fullmatch(_plain(text))
    if found is None or (found["sign"] and found["inner"]):
        return None
    value = parse_number(found["number"])
    words = found["unit"].split()
    if value is None or _NO_UNITS & set(words):
        return None
    if found["whole"]:
        value += int(found["whole"])
    if words and words[0] in _SCALES:
        value *= _SCALES[words.pop(0)]
    if "-" in (found["sign"], found["inner"]):
        value = -value
    unit = (found["currency"] or " ".join(words)).lower()
    return Quantity(value, unit if unit in _UNITS else "")


def last_quantity(text: str) -> str | None:
    """The last number in a text, with its sign, its currency and its unit where it is known."""
    found = [match.group() for match in _IN_TEXT.finditer(text)]
    return found[-1] if found else None


def _plain(text: str) -> str:
    """Without LaTeX, emphasis, thousands separators that are spaces, and a closing full stop."""
    plain = text.strip().strip("*")
    for pattern, replacement in _PLAIN:
        plain = pattern.sub(replacement, plain)
    if plain.startswith("$") and plain.endswith("$") and len(plain) > 1:
        plain = plain[1:-1]
    plain = _SEPARATED.sub("", " ".join(plain.split()))
    return plain.removesuffix(".").strip()
