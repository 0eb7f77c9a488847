"""Units of measurement after a number."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from assay_shared.answers.formulas.latex import CLOSE, DOLLAR, OPEN
from assay_shared.answers.values.unit_table import unit_named

#: These dimensions are made of others: a length's power, a length in a time.
_MADE = {
    "area": (("length", 2),),
    "volume": (("length", 3),),
    "speed": (("length", 1), ("time", -1)),
    "torque": (("force", 1), ("length", 1)),
}
_POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_TOKEN = re.compile(
    r"°[CF]\b|μ[A-Za-z]+|[kmGMμ]?Ω|[A-Za-z]++|[°%¢€£¥$]|\^\{?-?\d\}?"
    r"|(?<=[A-Za-z])[23](?!\d)|/|\\cdot|\*|\."
)
_SCALE = re.compile(r"(?:degrees?|deg|°) (?=celsius|fahrenheit)", re.IGNORECASE)
#: A ratio of units as a fraction, and Greek letters next to upright letters.
_RATIO = re.compile(r"\\frac\s?\{([^{}]*)\}\s?\{([^{}]*(?:\^\{-?\d\}[^{}]*)?)\}")
_GREEK = re.compile(r"\\mu ?(?=[\uE000])")
_OHMS = re.compile(rf"(?<![A-Za-z])([kMGm]) ?{CLOSE} ?\\Omega")
#: "5 thirds" and "5 times x" are other numbers; "5 is wrong" and "5 or six" are not numbers at all.
_NO_NOUNS = frozenset(
    [
        "halves",
        "thirds",
        "quarters",
        "fourths",
        "fifths",
        "sixths",
        "sevenths",
        "eighths",
        "ninths",
        "tenths",
        "hundredths",
        "thousandths",
        "millionths",
        "billionths",
        "ones",
        "twos",
        "threes",
        "fours",
        "fives",
        "sixes",
        "sevens",
        "eights",
        "nines",
        "tens",
        "dozens",
        "scores",
        "hundreds",
        "thousands",
        "millions",
        "billions",
        "trillions",
        "pairs",
        "couples",
        "times",
        "plus",
        "minus",
        "less",
        "squares",
        "squared",
        "cubes",
        "cubed",
        "roots",
        "powers",
        "factorials",
        "factors",
        "logs",
        "primes",
        "multiples",
        "percents",
        "or",
        "and",
        "to",
        "not",
        "nor",
        "no",
        "but",
        "than",
        "more",
        "over",
        "under",
        "below",
        "above",
        "point",
        "with",
        "without",
        "by",
        "from",
        "if",
        "is",
        "are",
        "was",
        "were",
        "isn't",
        "aren't",
        "never",
        "choose",
        "mod",
        "modulo",
        "divided",
        "multiplied",
        "per",
        "wrong",
        "off",
        "short",
        "half",
        "twice",
        "double",
        "triple",
        "thirty",
        "digits",
        "places",
        "decimals",
        "negatives",
    ]
)
_PLURALS = frozenset(
    [
        "people",
        "men",
        "women",
        "children",
        "mice",
        "geese",
        "feet",
        "teeth",
        "sheep",
        "fish",
        "persons",
    ]
)
_WORD = r"[A-Za-z][a-z'-]{2,24}"
_NOUN = re.compile(rf"(?:{_WORD} ){{0,3}}{_WORD}(?: of(?: {_WORD}){{1,2}})?")


@dataclass(frozen=True)
class Unit:
    """A unit after a number. `powers` has the dimensions of a known unit, and `size` its size in
    their base units; an unknown unit has only its `text`. If it is not `is_sure`, the number alone
    decides nothing: the unit may be a variable, as the single letter in "5 m", or the number
    belongs to several units, as hours and minutes together."""

    text: str
    powers: tuple[tuple[str, int], ...] = ()
    size: Fraction = Fraction(1)
    is_sure: bool = True

    @property
    def is_known(self) -> bool:
        return bool(self.powers)

    @property
    def is_percent(self) -> bool:
        return self.powers == (("percent", 1),)

    @property
    def changes_number(self) -> bool:
        """True if the unit is itself a number: a hundredth, or pi / 180."""
        return self.powers in ((("percent", 1),), (("angle", 1),))


@lru_cache(maxsize=4096)
def parse_unit(tail: str, one: bool = False) -> Unit | None:
    """Return the unit of a plain text after a number; None if it may be anything else.

    It is a known unit, or up to four words with a plural at the end: red apples. After 1 any noun
    is accepted.
    """
    if len(tail) > 120:
        return None
    apart = tail[:1] in (" ", OPEN)
    text = tail.replace(DOLLAR, "$")
    if "\\" in tail:
        text = _RATIO.sub(r"\1/ \2", _GREEK.sub("μ", _OHMS.sub(r"\1Ω", text)))
        text = text.replace("\\Omega", "Ω")
    text = " ".join(text.replace(OPEN, " ").replace(CLOSE, " ").split())
    if text[-1:] in ("s", "t"):
        text = _SCALE.sub("", text)
    known = _known(text.replace("μ ", "μ"), upright=OPEN in tail)
    if known is not None:
        return known
    if not apart or not _NOUN.fullmatch(text):
        return None
    words = text.lower().split()
    if _NO_NOUNS.intersection(words) or any(word.endswith("ths") for word in words):
        return None
    named = words[: words.index("of")] if "of" in words else words
    if not (one or _is_plural(named[-1])):
        return None
    return Unit(" ".join([*named[:-1], _singular(named[-1]), *words[len(named) :]]))


def _is_plural(word: str) -> bool:
    return word in _PLURALS or (
        len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    )


def _singular(text: str) -> str:
    return text[:-1] if text.endswith("s") and not text.endswith("ss") else text


def _known(text: str, upright: bool) -> Unit | None:
    """Return a unit of the table, or a power, product or ratio: km/h, square feet, m s^{-2}."""
    powers: dict[str, int] = {}
    size, sign, power, num_names, longest = Fraction(1), 1, 1, 0, 0
    last: tuple[str, Fraction] | None = None
    place = 0
    for token in _TOKEN.finditer(text):
        if text[place : token.start()].strip():
            return None
        place, word = token.end(), token.group()
        if word in ("/", "per"):
            sign = -1
        elif word in ("\\cdot", "*", "."):
            continue
        elif word[0] == "^" or word in ("2", "3") or (word in ("squared", "cubed") and last):
            if last is None:
                return None
            raised = _POWERS.get(word) or int(word.strip("^{}"))
            step = (raised - 1) * (sign if raised > 0 else 1)
            size *= last[1] ** step
            _add(powers, last[0], step)
            last = None
        elif word in _POWERS:
            power = _POWERS[word]
        else:
            found = unit_named(word)
            if found is None:
                return None
            size *= found[1] ** (power * sign)
            _add(powers, found[0], power * sign)
            last, power, num_names = found, 1, num_names + 1
            longest = max(longest, len(word) if word.isalpha() and word.isascii() else 2)
    if text[place:].strip() or not num_names or power != 1:
        return None
    sure = upright or longest > 1 or num_names > 1
    made = tuple(sorted((name, number) for name, number in powers.items() if number))
    return Unit(text, made, size, sure) if made else None


def _add(powers: dict[str, int], dimension: str, power: int) -> None:
    for name, number in _MADE.get(dimension, ((dimension, 1),)):
        powers[name] = powers.get(name, 0) + number * power
