"""Texts reduced to what every copy keeps: letters and digits alone, or all signs but spaces.

Entities, tags, escapes, format characters, accents and look-alike letters make no difference.
A reduced text is held as sums of the hashes of its characters, each with a power of a base modulo
2^64, so that every run of its characters is hashed in one pass.
"""

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 2**64)
_MASK = 2**64 - 1
_CACHED_POWERS = 2**12
#: Planes 0 to 3 have every letter that is in use; characters above them are dropped.
_NUM_CODES = 0x32000
_NUM_ASCII = 128
#: An attribute's value is a bounded text: otherwise one quotation mark could cost the whole text.
_VALUE = r"\"[^\"]{0,500}\"|'[^']{0,500}'|[^\s<>\"']{1,500}"
#: Tags that format a text. Others may be what a question is about: an SVG's path.
_NAMES = (
    "a|abbr|b|big|blockquote|body|br|center|code|del|div|em|font|h[1-6]|hr|html|i|ins|kbd|li|mark|"
    "ol|p|pre|q|s|samp|section|small|span|strong|sub|sup|table|tbody|td|th|thead|tr|tt|u|ul|var|wbr"
)
_TAG = re.compile(rf"</?(?:{_NAMES})(?:\s+[\w-]+\s*=\s*(?:{_VALUE}))*\s*/?>", re.IGNORECASE)
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
#: LaTeX loses these letters too, in the prompt as in the copy.
_ESCAPED_SPACE = re.compile(r"\\[nrt]", re.IGNORECASE)
_ESCAPED_ENTITIES = 2
#: Letters of other alphabets that look like Latin ones, and those.
_LOOK_ALIKE = dict(
    zip(
        "аеорсухіјѕһԁԛԝкмтвнαβεζικμνορτυχγıɑɡɩօսℓ",
        "aeopcyxijshdqwkmtbhabezikmvoptuxyiagioul",
        strict=True,
    )
)


class Form(IntEnum):
    """What is left of a text."""

    LETTERS = 0
    #: Letters, digits and all other signs: for texts that consist of signs.
    SIGNS = 1


@dataclass(frozen=True)
class Reduced:
    """Texts in a form, one after another. Text number `i` ends before character `ends[i]`."""

    sums: Hashes
    inverse: Hashes
    ends: tuple[int, ...]
    codes: NDArray[np.uint32]
    #: The place of each character in its text, before the reduction.
    places: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.codes)

    def run(self, at: int, length: int) -> int:
        """Return the hash of a run of characters."""
        difference = int(self.sums[at + length]) - int(self.sums[at])
        return difference * int(self.inverse[at]) & _MASK

    def runs(self, length: int) -> Hashes:
        """Return the hashes of all runs of a length, which is at most the text's."""
        inverse = self.inverse[: len(self.sums) - length]
        found: Hashes = (self.sums[length:] - self.sums[:-length]) * inverse
        return found

    def cuts_number(self, at: int) -> bool:
        """Return True if the characters before and after a place belong to one number."""
        if not 0 < at < len(self) or at in self.ends:
            return False
        both = all(_is_digit(int(code)) for code in self.codes[at - 1 : at + 1])
        return both and int(self.places[at]) == int(self.places[at - 1]) + 1


def reduced(texts: Sequence[str], form: Form) -> Reduced:
    """Return cleaned texts in a form."""
    codes, places = _reduced_codes("\n".join(texts), form)
    powers, inverse = _enough_powers(len(codes) + 1)
    sums = np.zeros(len(codes) + 1, dtype=np.uint64)
    np.cumsum(_mixed()[codes] * powers[: len(codes)], out=sums[1:])
    ends: tuple[int, ...] = (len(codes),)
    if len(texts) > 1:
        # A line break is between two texts.
        after = list(accumulate(len(text) + 1 for text in texts))
        ends = tuple(np.searchsorted(places, after).tolist())
    return Reduced(sums, inverse, ends, codes, places)


def cleaned(text: str) -> str:
    """Return a text with its entities and escapes as characters, without tags."""
    for _ in range(_ESCAPED_ENTITIES):
        if "&" in text:
            text = html.unescape(text)
    if "\\" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
        text = _ESCAPED_SPACE.sub(" ", text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    return text if text.isascii() else unicodedata.normalize("NFKD", text).casefold()


def _reduced_codes(text: str, form: Form) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the folded characters that a form keeps of a cleaned text, and their places."""
    if text.isascii():
        table = _ascii_table(form)
        folded = table[np.frombuffer(text.encode(), dtype=np.uint8)]
    else:
        raw = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
        folded = _table(form)[np.minimum(raw, _NUM_CODES - 1)]
    places = np.flatnonzero(folded)
    return folded[places], places


def _is_digit(code: int) -> bool:
    return ord("0") <= code <= ord("9")


@cache
def _ascii_table(form: Form) -> NDArray[np.uint32]:
    return np.array([_folded(chr(code), form) for code in range(_NUM_ASCII)], dtype=np.uint32)


@cache
def _table(form: Form) -> NDArray[np.uint32]:
    return np.array([_folded(chr(code), form) for code in range(_NUM_CODES)], dtype=np.uint32)


def _folded(sign: str, form: Form) -> int:
    """Return the code that stands for a character; 0 if the form drops it."""
    kind = unicodedata.category(sign)
    if kind in ("Nd", "No") and (digit := unicodedata.digit(sign, None)) is not None:
        return ord("0") + digit
    if kind[0] in "LN":
        low = sign.lower()
        return ord(_LOOK_ALIKE.get(low, low if len(low) == 1 else sign))
    if form is Form.LETTERS or kind[0] in "ZCM":
        return 0
    quotes = kind in ("Pi", "Pf") or sign == "`"
    return ord("-") if kind == "Pd" else ord("'") if quotes else ord(sign)


@cache
def _mixed() -> Hashes:
    """Return a hash of each code: splitmix64's finalizer."""
    found = np.arange(1, _NUM_CODES + 1, dtype=np.uint64) * np.uint64(_BASE)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))


@lru_cache(maxsize=8)
def _powers(least: int) -> tuple[Hashes, Hashes]:
    """Return at least this number of powers of the base and of its inverse."""
    both = []
    for base in (_BASE, _INVERSE):
        values = np.full(least, base, dtype=np.uint64)
        values[0] = 1
        both.append(np.cumprod(values))
    return both[0], both[1]


def _enough_powers(number: int) -> tuple[Hashes, Hashes]:
    least = _CACHED_POWERS
    while least < number:
        least *= 2
    return _powers(least)
