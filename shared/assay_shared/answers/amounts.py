"""Words next to a number or box, changing its value: half of 7, 7 lakh, at most 7."""

import re

from assay_shared.answers.remark_words import (
    BOXED_JOINTS,
    BOXED_NOUNS,
    BOXED_PAIRS,
    CHANGES,
    COUNTED,
    JOINTS,
    MEASURES,
    NUMERAL_PAIRS,
    NUMERALS,
    OPERATIONS,
    SHORT_WORDS,
    WHOLES,
)
from assay_shared.answers.values.units import parse_unit

_NEAR_CHARS = 40
_WORD = re.compile(r"[^\W\d_]++")
_OPENING = " \t\r\n$*({[\\"
_BEHIND = re.compile(r"(?:[ \t$)},~*-]|\\text\{|\\,){0,8}+((?:[^\W\d_]{1,20}+[ -]?){0,4}+)")
_UNIT_LIKE = re.compile(r"(?:[ \t$)},~*]|\\text\{|\\mathrm\{|\\[,;: ])*+([^\W\d_]+(?:'[a-z]+)?)")
_PARTS = NUMERAL_PAIRS | {"and change", "and some", "give or", "and half", "and a", "and an"}
_BOUNDS = frozenset(("under", "over", "below", "above"))
#: Words in "ths" other than fractions.
_LENGTHS = frozenset(("months", "lengths", "widths", "depths", "cloths", "moths", "booths"))
#: A number behind "divided by" is an operand.
_DIVIDING = frozenset(("divided", "divisible", "multiplied", "increased", "multiply", "divide"))
_ARTICLES = frozenset(("the", "a", "an", "number"))


def _words_before(text: str, start: int) -> list[str]:
    """Return at most four words just before `start`, with only space between them."""
    lead = text[max(0, start - _NEAR_CHARS) : start].rstrip(_OPENING)
    if not lead[-1:].isalpha():
        return []
    found: list[str] = []
    for word in reversed(lead.lower().rsplit(None, 4)[-4:]):
        bare = word.lstrip(_OPENING)
        if not bare.replace("-", "").isalpha():
            break
        found.insert(0, bare)
        if bare != word:
            break
    return found


def _words_behind(text: str, end: int) -> list[str]:
    found = _BEHIND.match(text, end)
    return _WORD.findall(found[1].lower()) if found else []


def changes_box(text: str, start: int) -> str:
    """Return the words just before `start` if they change the value there: half of the."""
    words = _words_before(text, start)
    if words[-1:] == ["than"] or (
        words[-1:] != [] and words[-1] in _BOUNDS and words[-2:-1] == ["just"]
    ):
        return " ".join(words[-2:]) + " "
    while words and (words[-1] in _ARTICLES or words[-1] == "of"):
        words.pop()
    if not words or words[-1] not in OPERATIONS:
        return ""
    is_one_of_several = words[-1] in ("root", "multiple") and words[-2:-1] in (["a"], ["one"])
    return "" if is_one_of_several else f"{words[-1]} of "


def numeral_behind(text: str, end: int) -> str:
    """Return the numeral after `end`, as in 7 lakh and 7 per cent; empty if there is none.

    "18 quarters in the pile" and "7 dozens of eggs" count things.
    """
    words = _words_behind(text, end)
    if words[:1] == ["and"] and " ".join(words[1:3]) in BOXED_PAIRS:
        return " " + " ".join(words[:3])
    if " ".join(words[:2]) in NUMERAL_PAIRS:
        return " " + " ".join(words[:2])
    if words[:1] and (" ".join(words[:2]) in BOXED_PAIRS or words[0] in BOXED_JOINTS):
        return " " + " ".join(words[:2])
    if words[:1] and len(words[0]) > 5 and words[0].endswith("ths") and words[0] not in _LENGTHS:
        return " " + words[0]
    if not words or words[0] not in NUMERALS or words[0] in BOXED_NOUNS:
        return ""
    if words[0] in COUNTED and len(words) > 1:
        return ""
    return " " + words[0]


def has_unknown_unit(text: str, number: str) -> bool:
    """Return True if the last `number` in a text has a word behind it that may be an unknown unit.

    "5 nmi" and "3 o'clock" do; "5 in total", "5 apples" and "5 km" do not. Words of four letters
    or more count only if they are known to measure something.
    """
    start = text.rfind(number)
    found = _UNIT_LIKE.match(text, start + len(number)) if start >= 0 else None
    if found is None or parse_unit(found[1]) is not None:
        return False
    word = found[1].lower()
    return word in MEASURES or (len(word) < 4 and word not in SHORT_WORDS)


def changes_number(before: str) -> bool:
    """Return True if the words just before a number change it: at most, inverse of."""
    words = _words_before(before, len(before))
    while len(words) > 1 and words[-1] in _ARTICLES:
        words.pop()
    if not words:
        return False
    if words[-1] == "of":
        return len(words) > 1 and words[-2] not in WHOLES
    if words[-1] == "by":
        return len(words) > 1 and words[-2] in _DIVIDING
    return words[-1] in CHANGES


def is_part(text: str, end: int) -> bool:
    """Return True if the words just after a number extend or blur it: 7 or so, 7 squared."""
    words = _words_behind(text, end)
    if not words:
        return False
    return words[0] in JOINTS or " ".join(words[:2]) in _PARTS
