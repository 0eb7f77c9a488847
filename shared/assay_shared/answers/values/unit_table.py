"""The known units, by their names in texts."""

import re
from collections import defaultdict
from fractions import Fraction

#: The dimension, the unit's size in the dimension's base unit, and its spellings.
_TABLE = (
    ("length", "1609.344", "mi mile miles"),
    ("length", "0.3048", "ft foot feet"),
    ("length", "0.0254", "in inch inches"),
    ("length", "0.9144", "yd yard yards"),
    ("length", "1000", "kms"),
    ("area", "4046.8564224", "acre acres"),
    ("area", "10000", "ha hectare hectares"),
    ("mass", "1000", "kgs"),
    ("mass", "453.59237", "lb lbs pound pounds"),
    ("mass", "28.349523125", "oz ounce ounces"),
    ("mass", "1000000", "t ton tons tonne tonnes"),
    ("time", "1", "sec secs"),
    ("time", "60", "min mins minute minutes"),
    ("time", "3600", "h hr hrs hour hours"),
    ("time", "86400", "day days"),
    ("time", "604800", "week weeks"),
    ("months", "1", "month months"),
    ("months", "12", "year years yr yrs"),
    ("volume", "1/1000000", "cc"),
    ("volume", "473176473/125000000000", "gallon gallons gal"),
    ("volume", "473176473/500000000000", "quart quarts qt"),
    ("volume", "473176473/1000000000000", "pint pints pt"),
    ("volume", "473176473/2000000000000", "cup cups"),
    ("volume", "473176473/32000000000000", "tablespoon tablespoons tbsp"),
    ("volume", "473176473/96000000000000", "teaspoon teaspoons tsp"),
    ("speed", "0.44704", "mph"),
    ("speed", "5/18", "kph kmh"),
    ("speed", "463/900", "kn knot knots"),
    ("dollars", "1", "$ dollar dollars usd"),
    ("dollars", "1/100", "¢ cent cents"),
    ("euros", "1", "€ euro euros eur"),
    ("sterling", "1", "£ gbp"),
    ("yen", "1", "¥ yen jpy"),
    ("yuan", "1", "yuan rmb cny"),
    ("rupees", "1", "₹ rupee rupees inr"),
    ("won", "1", "krw"),
    ("francs", "1", "franc francs chf"),
    ("australian dollars", "1", "aud"),
    ("canadian dollars", "1", "cad"),
    ("hong kong dollars", "1", "hkd"),
    ("singapore dollars", "1", "sgd"),
    ("angle", "1", "° degree degrees deg"),
    ("radians", "1", "rads"),
    ("percent", "1", "% percent"),
    ("celsius", "1", "celsius °C degC"),
    ("fahrenheit", "1", "fahrenheit °F degF"),
    ("kelvin", "1", "K kelvin kelvins"),
    ("torque", "1", "Nm"),
    ("cal", "1", "cal"),
    ("cal", "1000", "Cal kcal"),
    ("current", "1", "amps"),
    ("units", "1", "unit units"),
    # A thousand bytes are a kilobyte to some, and 1,024 to others.
    ("bytes", "1", "byte bytes"),
    ("kilobytes", "1", "kB KB kilobyte kilobytes"),
    ("megabytes", "1", "MB megabyte megabytes"),
    ("gigabytes", "1", "GB gigabyte gigabytes"),
    ("terabytes", "1", "TB terabyte terabytes"),
    ("bits", "1", "bit bits"),
    ("kilobits", "1", "kb kbit kilobit kilobits"),
    ("megabits", "1", "Mb Mbit megabit megabits"),
    ("gigabits", "1", "Gb Gbit gigabit gigabits"),
)
#: Units with prefixes: the dimension, the unit's size, its symbols, its names, and its prefixes.
_BASES = (
    ("length", "1", "m", "meter meters metre metres", "nμmcdkM"),
    ("mass", "1", "g", "gram grams", "nμmkM"),
    ("time", "1", "s", "second seconds", "nμmM"),
    ("volume", "1/1000", "L l", "liter liters litre litres", "μmcdkM"),
    ("force", "1", "N", "newton newtons", "mkM"),
    ("energy", "1", "J", "joule joules", "mkMG"),
    ("energy", "3600", "Wh", "", "mkMG"),
    ("power", "1", "W", "watt watts", "nμmkMG"),
    ("pressure", "1", "Pa", "pascal pascals", "mkMG"),
    ("pressure", "100000", "bar", "", "mkM"),
    ("frequency", "1", "Hz", "hertz", "mkMG"),
    ("potential", "1", "V", "volt volts", "nμmkM"),
    ("current", "1", "A", "ampere amperes", "pnμmkM"),
    ("resistance", "1", "Ω", "ohm ohms", "μmkMG"),
    ("amount", "1", "mol", "mole moles", "nμmkM"),
    ("radians", "1", "rad", "radian radians", "mM"),
    ("electronvolts", "1", "eV", "electronvolt electronvolts", "mkMG"),
)
_PREFIXES = {
    "p": ("pico", Fraction(1, 10**12)),
    "n": ("nano", Fraction(1, 10**9)),
    "μ": ("micro", Fraction(1, 10**6)),
    "m": ("milli", Fraction(1, 1000)),
    "c": ("centi", Fraction(1, 100)),
    "d": ("deci", Fraction(1, 10)),
    "k": ("kilo", Fraction(1000)),
    "M": ("mega", Fraction(10**6)),
    "G": ("giga", Fraction(10**9)),
}
#: Nobody writes hA (100 amperes), but it must not be read as a hectare (ha) in another case.
_EXACTLY = {"hA": ("current", Fraction(100))}
#: In a sentence these are words, variables or the times of a day.
_NO_NAMES = frozenset(("in", "A", "t", "V", "N", "K", "J", "W"))


def _with_prefixes() -> dict[str, tuple[str, Fraction]]:
    units = {
        name: (dimension, Fraction(size))
        for dimension, size, names in _TABLE
        for name in names.split()
    }
    for dimension, one, symbols, names, prefixes in _BASES:
        for name in (*symbols.split(), *names.split()):
            units[name] = (dimension, Fraction(one))
        for prefix in prefixes:
            spoken, size = _PREFIXES[prefix]
            prefixed = [prefix + symbol for symbol in symbols.split()]
            prefixed += [spoken + name for name in names.split()]
            units |= dict.fromkeys(prefixed, (dimension, size * Fraction(one)))
    return units


_UNITS = _with_prefixes()


def _by_folded_name() -> dict[str, tuple[str, Fraction]]:
    """Return the units with the same meaning in any case: mg and Mg differ, km and KM do not."""
    spelled = defaultdict(set)
    for name, unit in _UNITS.items():
        spelled[name.lower()].add(unit)
    return {
        name: next(iter(units))
        for name, units in spelled.items()
        if len(units) == 1 and len(name) > 1
    }


_FOLDED = _by_folded_name()


def unit_named(word: str) -> tuple[str, Fraction] | None:
    """Return a unit's dimension and its size in the dimension's base unit; None if it is unknown.

    The case may be unusual if no two units differ only in case in this spelling.
    """
    return _UNITS.get(word) or _EXACTLY.get(word) or _FOLDED.get(word.lower())


def _pattern() -> str:
    """Return a regular expression for names of units in any case, grouped by first letter."""
    tails = defaultdict(set)
    for name in _UNITS.keys() - _NO_NAMES:
        tails[name[0].lower()].add(name[1:].lower())
    groups = []
    for first, ends in tails.items():
        longest_first = sorted(ends, key=lambda end: (-len(end), end))
        groups.append(f"{_any_case(first)}(?:{'|'.join(map(_any_case, longest_first))})")
    return "|".join(groups)


def _any_case(text: str) -> str:
    return "".join(
        f"[{letter}{letter.upper()}]"
        if letter.isascii() and letter.isalpha()
        else re.escape(letter)
        for letter in text
    ).replace("μ", "[μµ]")


#: Spellings of units in a sentence; "in" is not an inch there. `unit_named` identifies the unit:
#: 5 MG is neither milligrams nor megagrams, and not a plain 5 either.
UNIT_PATTERN = _pattern()
