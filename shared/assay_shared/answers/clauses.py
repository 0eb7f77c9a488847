"""Reading a clause after an answer: does it deny or doubt the answer?"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from assay_shared.answers.remark_words import (
    ANSWER_NOUNS,
    AUXILIARIES,
    BARE_REJECTIONS,
    BESIDE_REMARKS,
    CERTAINTY,
    CLAUSE_WORDS,
    DENYING_SIGNS,
    DENYING_TEXTS,
    DENYING_VERBS,
    DETERMINERS,
    FIRST_NOUNS,
    GUESSES,
    HARMLESS,
    HEDGES,
    JUDGED,
    LINKS,
    LONE_REMARKS,
    MODALS,
    NEGATIONS,
    OLD,
    PAST,
    PHRASE_WORDS,
    PLURAL_VERBS,
    POINTERS,
    REJECTING_PAIRS,
    REJECTIONS,
    RELATIVES,
    REPORTS,
    RETRACTING_PHRASES,
    TRAILING_PHRASES,
    TRAILING_WORDS,
    VERBS,
    WRITERS,
)

_MAX_SENTENCE = 1000
#: Words within this distance after a word are near it.
_NEAR = 4
#: A word, a number, or a mark.
_TOKEN = re.compile(r"[^\W\d_]++(?:['’-][^\W\d_]++)*+|\d++(?:[.,/]\d++)*+|[^\s\w]|_")
CLAUSE_MARKS = frozenset(",;:()—–-")
QUIET = frozenset(".!*_`\"'”“$[]{}\\")
_REMARKING = JUDGED | ANSWER_NOUNS | REJECTIONS | AUXILIARIES | POINTERS | HEDGES | BESIDE_REMARKS
_REMARKING |= FIRST_NOUNS
_CONDITIONS = frozenset(("if", "but", "unless", "had"))


def tokens_in(text: str) -> list[str]:
    """Return words, numbers and marks of the first 1,000 characters of a text, in lower case."""
    return _TOKEN.findall(text[:_MAX_SENTENCE].lower().replace("’", "'"))


def is_negation(word: str) -> bool:
    """Return True if the word, in lower case, is a negation."""
    return word in NEGATIONS or word.endswith("n't")


class Clause(NamedTuple):
    words: list[str]
    text: str
    #: True if a mark stands before it: "7, which is wrong", unlike "7 numbers which are not even".
    is_apart: bool


def clauses(text: str) -> Iterator[Clause]:
    """Yield the clauses of a text, split at marks and before words such as "but" or "because";
    marks of quotation and emphasis are left out."""
    words: list[str] = []
    begins, is_apart = 0, False
    for found in _TOKEN.finditer(text, 0, _MAX_SENTENCE):
        token, place = found.group().lower().replace("’", "'"), found.start()
        if token in QUIET:
            continue
        is_mark = token in CLAUSE_MARKS
        if words and (is_mark or (token in CLAUSE_WORDS and not LINKS.issuperset(words))):
            yield Clause(words, text[begins:place], is_apart)
            words, is_apart = [], False
        if is_mark:
            is_apart = True
        else:
            begins = begins if words else place
            words.append(token)
    if words:
        yield Clause(words, text[begins:], is_apart)


def without_links(words: list[str]) -> list[str]:
    at = 0
    while at < len(words) and words[at] in LINKS:
        at += 1
    return words[at:]


def is_against(words: list[str], own: list[str], is_first: bool, is_apart: bool) -> bool:
    """Return True if a clause after an answer, in the same sentence, is against the answer."""
    if is_remark(words) and (is_apart or not is_first or not words[0].endswith("ed")):
        return True
    if words[0] in ("which", "that") and not is_first and not is_apart:
        return False
    said = said_of_answer(words, own)
    if said is not None:
        return bool(said) and is_predicate(said) and is_negative(said)
    if not is_first or is_apart:
        return False
    first = words[0]
    if first in PLURAL_VERBS:
        return False
    if first in AUXILIARIES or first in VERBS or is_negation(first) or first in REJECTIONS:
        return is_predicate(words) and is_negative(words)
    return is_negative(_behind_noun(words), of_noun=True)


def is_remark(words: list[str]) -> bool:
    """Return True for a short denial or doubt: wrong, maybe, no, just a guess."""
    at = 1 if words[0] == "is" and len(words) > 1 else 0
    while at < len(words) - 1 and (words[at] in DETERMINERS or words[at] in ("just", "only")):
        at += 1
    key, rest = words[at], words[at + 1 :]
    if len(rest) > _NEAR or not _REMARKING.issuperset(rest):
        return False
    if key in REJECTIONS or key in HEDGES or key in GUESSES or key in LONE_REMARKS:
        return True
    if key in OLD and rest and (ANSWER_NOUNS | FIRST_NOUNS).issuperset(rest):
        return True
    return is_negation(key) and (not JUDGED.isdisjoint(rest) or AUXILIARIES.issuperset(rest))


def is_predicate(words: list[str]) -> bool:
    """Return True if words form a predicate of an answer: is wrong, simply cannot be, fails."""
    at = 0
    while at < len(words) - 1 and words[at] in AUXILIARIES and words[at] not in VERBS:
        at += 1
    word = words[at]
    if word in VERBS or word in DENYING_VERBS or word.endswith("n't"):
        return True
    return is_negation(word) and words[at + 1 : at + 2] != [] and words[at + 1] in JUDGED


def said_of_answer(words: list[str], own: list[str]) -> list[str] | None:
    """Return the predicate of a clause if its subject is the answer, else None."""
    if own and words[: len(own)] == own:
        said = words[len(own) :]
        return said if said and (said[0] in VERBS or is_negation(said[0])) else None
    if words[0] in ("that's", "it's"):
        return words
    if words[0] in DETERMINERS:
        for at in (1, 2):
            if words[at : at + 1] and words[at] in ANSWER_NOUNS:
                return words[at + 2 :] if words[at + 1 : at + 2] == ["above"] else words[at + 1 :]
    if words[0] in POINTERS or words[0] in ANSWER_NOUNS:
        return words[1:]
    return None


def _behind_noun(words: list[str]) -> list[str]:
    """Return the predicate after the noun: "7 apples is wrong". Empty if more words are between."""
    for at, word in enumerate(words[: _NEAR + 1]):
        if word in PLURAL_VERBS:
            break
        if at and (word in VERBS or word.endswith("n't")):
            return words[at:]
        if word in RELATIVES:
            break
    return []


def is_negative(said: list[str], of_noun: bool = False) -> bool:
    """Return True if a predicate denies or doubts an answer: isn't right, was my first guess.

    A predicate of the answer's noun counts only if it cannot be said of anything but answers.
    """
    if not said:
        return False
    if _is_paired(said[: 2 * _NEAR]):
        return True
    at = 0
    while at < len(said) and (said[at] in AUXILIARIES or is_negation(said[at])):
        at += 1
    begins, content = said[:at], said[at : at + _NEAR]
    if any(is_negation(word) for word in begins):
        return _denies(content, of_noun)
    if not REJECTIONS.isdisjoint(content):
        return not any(is_negation(word) for word in content)
    if content and is_negation(content[0]):
        return content[1:2] != [] and content[1] in JUDGED
    return not of_noun and (_is_doubtful(begins, content, said) or is_past(said))


def _is_paired(said: list[str]) -> bool:
    """Return True if two words together deny an answer, or attribute it to others: far from right,
    makes no sense, what most people say."""
    if said[-1] == "anything":
        return True
    if "what" in said[:2] and not REPORTS.isdisjoint(said) and WRITERS.isdisjoint(said):
        return True
    return any(f"{one} {other}" in REJECTING_PAIRS for one, other in pairwise(said))


def _denies(content: list[str], of_noun: bool) -> bool:
    """Return True if "not" before these words denies an answer."""
    if not content:
        return True
    if of_noun:
        return content[0] in JUDGED
    return content[0] not in HARMLESS and content[0] not in REJECTIONS


def _is_doubtful(begins: list[str], content: list[str], said: list[str]) -> bool:
    """Return True if a predicate states the answer as likely only, or under a condition."""
    if not HEDGES.isdisjoint([*begins, *content]) or not GUESSES.isdisjoint(content):
        return True
    if not MODALS.isdisjoint(begins) and not JUDGED.isdisjoint([*begins, *content]):
        return True
    if "would" in begins and not _CONDITIONS.isdisjoint(said):
        return True
    return bool(begins) and bool(content) and content[0] in BARE_REJECTIONS


def is_past(said: list[str]) -> bool:
    """Return True if a predicate refers to an earlier answer: was my first guess, is what I had."""
    near = said[: 2 * _NEAR]
    if near[:3] == ["used", "to", "be"]:
        return True
    return not PAST.isdisjoint(near) and not OLD.isdisjoint(near)


def takes_back(tokens: list[str]) -> bool:
    if PHRASE_WORDS.isdisjoint(tokens):
        return False
    joined = f" {' '.join(tokens)} "
    if any(sure in joined for sure in CERTAINTY):
        return False
    return any(phrase in joined for phrase in RETRACTING_PHRASES)


def trails_off(tokens: list[str]) -> bool:
    if tokens[-2:] == ["or", "not"]:
        return True
    if TRAILING_WORDS.isdisjoint(tokens):
        return False
    joined = f" {' '.join(tokens)} "
    return any(phrase in joined for phrase in TRAILING_PHRASES)


def has_sign(text: str) -> bool:
    """Return True if a text has a cross, or a denial in a script without spaces."""
    if text.isascii():
        return False
    return any(sign in text for sign in DENYING_SIGNS) or any(one in text for one in DENYING_TEXTS)
