"""Texts: the same words, without any change that could change what they say."""

import re

_MAX_LENGTH = 20_000
_QUOTES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " ", "\u202f": " "})
#: Marks that end a clause behind a word; a question mark is a doubt. A mark behind a digit or a
#: single letter may be of mathematics (5!, n!), a dot before a digit is a decimal's.
_MARK = re.compile(r"(?<=[^\W\d_][^\W\d_])[.,;:!]+(?=\s|$|\")|(?<=\d)[.,;:](?=\s|$)|(?<=[^\s.])\.$")
_FINAL_MARKS = "。．｡।۔።！，、；"
_HYPHEN = re.compile(r"(?<=[^\W\d_][^\W\d_])-(?=[^\W\d_]{2})")
_QUOTED = re.compile(r"""(?<![\w'])(["'])(?=\w)([^"']*)\1(?!\w)""")
#: "A" is an article in lower case, at the beginning, or before a word with a capital; not where it
#: names one of its kind ("vitamin A deficiency"), a key ("A minor") or a few.
_ARTICLE = re.compile(
    r"""(?:(?<=\s)|^)
    (?:[Tt]he|THE|an|An
      |(?<!vitamin\s)(?<!hepatitis\s)(?<!influenza\s)(?<!type\s)(?<!group\s)(?<!class\s)
       (?<!grade\s)(?<!plan\s)(?<!option\s)(?<!point\s)
       (?:a|^A(?=\s[a-z])|A(?=\s[A-Z][a-z]))
       (?!\s(?:major|minor|flat|sharp|positive|negative|few|little|lot)\b))
    \s(?=\w{2}|\d)""",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
#: A letter that is a part of a formula, by the sign beside it or the number before it. A hyphen
#: joins it to a word ("X-ray"), or is a minus.
_FORMULA_BEFORE = re.compile(r"[\d=+*/^<>|~\\_({\[∈∪∩≤≥−–-]\s?$")
_FORMULA_BEHIND = re.compile(r"\s?[=+*/^<>|~\\_({\[∈∪∩≤≥−–]|\s?-(?![^\W\d_]{3})|\s-|['!\u2032]")
#: C++, C# and F# alone: names of languages.
_LANGUAGE = re.compile(r"[CcFfJj]#(?!\w)|[Cc]\+\+(?=$|[\s,;:.)])")
#: A word of four letters or more shows that a text speaks, and does not compute.
_SPEAKS = re.compile(r"(?<![^\W\d_])[^\W\d_]{4}")
#: Where one of these stands, a letter may be a name in a formula, or the case of it what is meant.
_OF_LETTERS = re.compile(
    r"(?i:[\\$]|\b(?:allel|genes?\b|genot|phenot|chromosom|dominan|recessi|letter|cases?\b|symbol"
    r"|variab|constant|function|matri[cx]|vector|scalar|parameter|deriv|integra|equation|formula"
    r"|units?\b|plus\b|minus\b|times\b|squared|cubed|divided|equals?\b|sqrt|sinh|cosh|tanh|arc))"
)
#: After a number, or alone, these are units of which a capital makes others: mg and Mg, pm and Pm.
_PREFIXED = re.compile(r"[mp][abcfghjlmnstvw]")


def same_words(one: str, other: str) -> bool:
    """Whether both have the same words, numbers and signs, in the same order.

    Case, articles, quotation marks and the marks at the end of a word do not count. Digits, signs
    and operators do, and so does case where it may tell: in words like MPa, in units, and in single
    letters, unless they stand in a text of words ("vitamin c") that is not about letters.
    """
    if one == other:
        return bool(one.strip())
    if max(len(one), len(other)) > _MAX_LENGTH:
        return False
    key = words_key(one)
    return bool(key) and key == words_key(other)


def words_key(text: str, fold: bool = True) -> str:
    """What two texts of the same words have in common, their case too unless `fold`; empty for a
    text of none."""
    spaced = " ".join(text.translate(_QUOTES).split()).strip("*_`").rstrip(_FINAL_MARKS)
    plain = _HYPHEN.sub(" ", _QUOTED.sub(r"\2", _MARK.sub("", spaced)))
    plain = _ARTICLE.sub("", plain)
    return " ".join((_fold(plain) if fold else plain).split())


def _fold(text: str) -> str:
    """Return a text without the case that says nothing."""
    text = _LANGUAGE.sub(lambda found: found.group().casefold(), text)
    letters = _letters_of_speech(text)

    def folded(found: re.Match[str]) -> str:
        word = found.group()
        if len(word) == 1:
            return word.casefold() if found.start() in letters else word
        usual = word.islower() or word.istitle() or (word.isupper() and len(word) > 2)
        if len(word) == 2 and usual and _may_be_symbol(found):
            return word
        return word.casefold() if usual else word

    return _WORD.sub(folded, text)


def _may_be_symbol(found: re.Match[str]) -> bool:
    """Whether the case of a word of two letters may tell: of a unit, or of a genotype (Aa, aa)."""
    folded = found.group().casefold()
    if folded[0] == folded[1]:
        return True
    return bool(_PREFIXED.fullmatch(folded)) and _stands_as_unit(found)


def _stands_as_unit(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - 2) : found.start()].rstrip()
    is_alone = len(found.string) == len(found.group())
    return is_alone or before[-1:].isdigit() or before[-1:] in ("/", "*", "·")


def _letters_of_speech(text: str) -> frozenset[int]:
    """Return where single letters stand whose case says nothing: none of a formula, and none of a
    letter that stands there in both cases."""
    found = [one for one in _WORD.finditer(text) if len(one.group()) == 1]
    if not found or _SPEAKS.search(text) is None or _OF_LETTERS.search(text):
        return frozenset()
    written: dict[str, set[str]] = {}
    for one in found:
        written.setdefault(one.group().casefold(), set()).add(one.group())
    return frozenset(
        one.start()
        for one in found
        if len(written[one.group().casefold()]) == 1 and not _is_in_formula(one)
    )


def _is_in_formula(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - 2) : found.start()]
    behind = found.string[found.end() : found.end() + 6]
    return bool(_FORMULA_BEFORE.search(before) or _FORMULA_BEHIND.match(behind))
