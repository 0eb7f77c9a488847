"""Comparison of texts by their words, ignoring only differences without a meaning."""

import re

_MAX_LENGTH = 20_000
_QUOTES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " ", "\u202f": " "})
#: Marks that end a clause after a word; a question mark is a doubt. A mark after a digit or a
#: single letter may be mathematical (5!, n!), and a dot before a digit is a decimal point.
_MARK = re.compile(r"(?<=[^\W\d_][^\W\d_])[.,;:!]+(?=\s|$|\")|(?<=\d)[.,;:](?=\s|$)|(?<=[^\s.])\.$")
_FINAL_MARKS = "。．｡।۔።！，、；"
_HYPHEN = re.compile(r"(?<=[^\W\d_][^\W\d_])-(?=[^\W\d_]{2})")
_QUOTED = re.compile(r"""(?<![\w'])(["'])(?=\w)([^"']*)\1(?!\w)""")
#: "A" is an article in lower case, at the beginning, or before a word with a capital; but not in a
#: name ("vitamin A deficiency"), as a key ("A minor") or in "a few".
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
#: A letter in a formula, known by the sign next to it or the number before it. A hyphen joins the
#: letter to a word ("X-ray"), or is a minus.
_FORMULA_BEFORE = re.compile(r"[\d=+*/^<>|~\\_({\[∈∪∩≤≥−–-]\s?$")
_FORMULA_BEHIND = re.compile(r"\s?[=+*/^<>|~\\_({\[∈∪∩≤≥−–]|\s?-(?![^\W\d_]{3})|\s-|['!\u2032]")
#: C++, C# and F# alone: names of languages.
_LANGUAGE = re.compile(r"[CcFfJj]#(?!\w)|[Cc]\+\+(?=$|[\s,;:.)])")
#: A word of four letters or more marks a text of words, as opposed to a formula.
_SPEAKS = re.compile(r"(?<![^\W\d_])[^\W\d_]{4}")
#: In a text with one of these, a letter may be a name in a formula, or its case may matter.
_OF_LETTERS = re.compile(
    r"(?i:[\\$]|\b(?:allel|genes?\b|genot|phenot|chromosom|dominan|recessi|letter|cases?\b|symbol"
    r"|variab|constant|function|matri[cx]|vector|scalar|parameter|deriv|integra|equation|formula"
    r"|units?\b|plus\b|minus\b|times\b|squared|cubed|divided|equals?\b|sqrt|sinh|cosh|tanh|arc))"
)
#: After a number, or alone, these are units; a capital makes another unit: mg and Mg, pm and Pm.
_PREFIXED = re.compile(r"[mp][abcfghjlmnstvw]")


def same_words(one: str, other: str) -> bool:
    """Return True if both have the same words, numbers and signs, in the same order.

    Case, articles, quotation marks and the marks at the end of a word do not count. Digits, signs
    and operators do. Case counts if it may carry a meaning: in words like MPa, in units, and in
    single letters. It does not count for a letter in a text of words ("vitamin c") not about
    letters.
    """
    if one == other:
        return bool(one.strip())
    if max(len(one), len(other)) > _MAX_LENGTH:
        return False
    key = words_key(one)
    return bool(key) and key == words_key(other)


def words_key(text: str, fold: bool = True) -> str:
    """Return a key, equal for texts with the same words, and with the same case unless `fold`;
    empty for a text without words."""
    spaced = " ".join(text.translate(_QUOTES).split()).strip("*_`").rstrip(_FINAL_MARKS)
    plain = _HYPHEN.sub(" ", _QUOTED.sub(r"\2", _MARK.sub("", spaced)))
    plain = _ARTICLE.sub("", plain)
    return " ".join((_fold(plain) if fold else plain).split())


def _fold(text: str) -> str:
    """Return a text with case folded if the case carries no meaning."""
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
    """Return True if a word of two letters may be a unit or a genotype (Aa, aa): case counts."""
    folded = found.group().casefold()
    if folded[0] == folded[1]:
        return True
    return bool(_PREFIXED.fullmatch(folded)) and _stands_as_unit(found)


def _stands_as_unit(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - 2) : found.start()].rstrip()
    is_alone = len(found.string) == len(found.group())
    return is_alone or before[-1:].isdigit() or before[-1:] in ("/", "*", "·")


def _letters_of_speech(text: str) -> frozenset[int]:
    """Return the places of single letters with a meaningless case: no letters in a formula, and no
    letters present in both cases."""
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
