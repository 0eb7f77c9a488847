"""Remarks of a text about its own answer: denial, doubt, replacement.

The words come from the tables of `remark_words`. Before an answer, only the words between its
clause's verb and the answer count: "is not", "my guess is". After an answer, predicates of the
answer count ("7 is not right"), but not predicates of the counted things ("7 students who did not
come").
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from assay_shared.answers.clauses import (
    CLAUSE_MARKS,
    QUIET,
    clauses,
    has_sign,
    is_against,
    is_negation,
    is_negative,
    is_past,
    is_predicate,
    is_remark,
    said_of_answer,
    takes_back,
    tokens_in,
    trails_off,
    without_links,
)
from assay_shared.answers.remark_words import (
    AFTER_NO,
    ANSWER_NOUNS,
    COPULAS,
    DENYING_NAMES,
    FILLERS,
    FIRST_NOUNS,
    GUESSES,
    HEDGES,
    INEXACT,
    LEADING_PHRASES,
    LINKS,
    MODALS,
    NOTES_OF_CHANGE,
    OLD,
    OPINIONS,
    OTHERS,
    PAST_OPINIONS,
    POINTERS,
    REASONS,
    REJECTIONS,
    REPLACING,
    REPORTS,
    RETRACTIONS,
    SUPPOSED,
    WRITERS,
)

_MAX_BEFORE = 160
_NEAR_CHARS = 24
_NEAR = 4
#: Within this number of sentences after an answer, "that" may still mean it.
_MAX_POINTED = 2
#: Most answers share a few sentences such as "The answer is": verdicts on short ones are cached.
_MAX_KEPT = 100
#: The end of a sentence; a full stop inside of a number does not end it.
_SENTENCE_END = re.compile(r"[.!?…](?=[\s*_\"'$)}\\]|\Z)[?!]?|[。！？]|\n")
#: Marks around an answer; they belong to the answer and not to any word.
_AROUND = " \t\r\n$\\([{*_`\"'”“)]}"
#: An incomplete line, completed by the next line: "The answer is not".
_OPEN_LINE = re.compile(r"(?::|n't|\b(?:is|are|was|be|equals)(?: not)?)\Z")
#: "x =" before an answer, and "in fact" between commas.
_NAME = re.compile(r"[\s$\\(]*(?<![A-Za-z])[A-Za-z]\s?=\s*\Z")
_ASIDE = re.compile(
    r",\s(?:in fact|of course|however|indeed|after all|actually|unfortunately)\s?,?\s?"
)
#: After these, a sentence with a hedge at its beginning turns to something else.
_CONTRASTS = frozenset(("but", "so", "hence", "thus", "therefore", "then", ";", ":", "however"))
#: "7 -> 8" and "7 vs 8" give another value, and "7 is not equal" denies it by a sign.
_ARROW = re.compile(
    r"\W*?(?:→|⇒|->|=>|\\(?:to|rightarrow|Rightarrow)\b|vs\.?|and/or)\s*", re.IGNORECASE
)
_UNEQUAL = re.compile(r"[\s$)}\]]*(?:≠|\\neq?\b)")
#: Leads to a value that the text holds wrong, or has replaced.
_MISLED = re.compile(
    r"\b(?:an?|the|one|some)\s(?:\w+\s)?(?:careless|incorrect|wrong|na[iï]ve|flawed|erroneous"
    r"|mistaken)\s(?:approach|solver|student|person|reader|solution"
    r"|calculation|attempt|method|guess|answer|reading)s?\b"
    r"|\b(?:mistake|error) (?:is|would|gives|leads)\b"
    r"|\b(?:my|our|the)\s(?:first|earlier|initial|previous|original)\s(?:attempt|try|guess|answer)\b"
    r"|\b(?:I|we)\s(?:had\s)?(?:earlier|previously|first|initially|originally)\s[a-z]"
    r"|\b(?:previously|earlier|initially|originally|at first),?\s(?:I|we)\s"
    r"|\bfor comparison\b|\bif (?:we|I|one) had\b",
    re.IGNORECASE,
)
#: The last clause alone leads to the answer: my first guess was 8, but it is 7.
_TURN = re.compile(r";|[,.]?\s(?:but|so|and|now|then|hence|thus|therefore|yet)\b")
_INFINITE = frozenset(("be", "been", "being", "equal"))

#: Returns True if a sentence or clause gives a value or option other than the answer.
GivesOther = Callable[[str], bool]


def is_denied(text: str, start: int, end: int, own: str, gives_other: GivesOther) -> bool:
    """Return True if the text around an answer, written as `own`, denies, doubts or replaces it."""
    return is_denied_before(text, start) or is_withdrawn(text, end, own, gives_other)


def is_denied_before(text: str, start: int) -> bool:
    """Return True if the sentence before an answer at `start` denies, doubts or only reports it."""
    before = text[max(0, start - _MAX_BEFORE) : start]
    lead = before.rstrip(_AROUND)
    if not lead:
        return False
    if "\n" in before[len(lead) :] and not _OPEN_LINE.search(lead):
        return False
    sentence = _SENTENCE_END.split(lead)[-1]
    return _short_denial(sentence) if len(sentence) <= _MAX_KEPT else _is_denial(sentence)


def _is_denial(sentence: str) -> bool:
    """Return True if a sentence that leads to an answer denies, doubts or only reports it."""
    if sentence.endswith("="):
        sentence = _NAME.sub("", sentence)
    if "," in sentence:
        sentence = _ASIDE.sub(" ", sentence)
    if has_sign(sentence[-_NEAR_CHARS:]) or _MISLED.search(_TURN.split(sentence)[-1]):
        return True
    tokens = tokens_in(sentence)
    if tokens and tokens[-1] == ":":
        tokens.pop()
    if tokens and tokens[0] in HEDGES and _CONTRASTS.isdisjoint(tokens):
        return True
    return _leads_to_denial(tokens) or takes_back(tokens)


_short_denial = lru_cache(maxsize=4096)(_is_denial)


def _leads_to_denial(tokens: list[str]) -> bool:
    """Return True if the words up to the answer deny it. The search goes back from the answer, up
    to a word not permitted between a denial and the denied answer."""
    has_verb = has_opinion = False
    later = ""
    for at in range(len(tokens) - 1, -1, -1):
        word, before = tokens[at], tokens[max(0, at - 2) : at]
        if word in INEXACT and later in ("", "equal", "to"):
            return not any(token[0].isdigit() for token in tokens[:at])
        denies = _denies_ahead(word, before, later, has_opinion or not has_verb)
        if denies is not None:
            return denies
        has_verb = has_verb or (word in COPULAS and word not in _INFINITE)
        has_opinion = has_opinion or word in OPINIONS
        later = word
    return False


def _denies_ahead(word: str, before: list[str], later: str, reaches: bool) -> bool | None:
    """Return True if a word before an answer denies it, False to end the search, else None.

    A denial `reaches` the answer if no verb stands between, or a verb of opinion does.
    """
    ahead = before[-1] if before else ""
    if f"{ahead} {word}" in LEADING_PHRASES:
        return reaches or ahead == "no"
    if is_negation(word):
        return reaches and (word != "no" or later != ",")
    if word in HEDGES or word in PAST_OPINIONS or word in SUPPOSED:
        return True
    if word in REPORTS and WRITERS.isdisjoint(before):
        return ahead != "" or word != "say"
    if word in OTHERS and later in ("answer", "answers", "would", "might", "expect"):
        return reaches
    if word in REJECTIONS or word in GUESSES:
        if is_negation(ahead):
            return False
        return reaches or later in ANSWER_NOUNS or word in DENYING_NAMES
    if word in OLD and later in FIRST_NOUNS:
        return True
    if word in MODALS:
        return reaches
    return None if word in FILLERS else False


def is_withdrawn(text: str, end: int, own: str, gives_other: GivesOther) -> bool:
    """Return True if the text after an answer, from `end` on, denies, doubts or replaces it.

    In the answer's own sentence, each clause about the answer counts. A later sentence counts if it
    retracts, if it is about the answer (written as `own`), or if it gives another answer.
    """
    if not text[end : end + _NEAR_CHARS].strip(_AROUND + ".!") and len(text) <= end + _NEAR_CHARS:
        return False
    own_words = tokens_in(own)
    for at, (sentence, mark) in enumerate(_sentences(text, end)):
        if at == 0:
            against = "?" in mark or _is_denied_in(sentence, own_words, gives_other)
        else:
            against = (
                _retracts(sentence)
                or _speaks_against(sentence, own_words, is_near=at <= _MAX_POINTED)
                or gives_other(sentence)
            )
        if against:
            return True
    return False


def _sentences(text: str, start: int) -> Iterator[tuple[str, str]]:
    """Yield each sentence from `start` on, with its final mark. The first is the answer's own."""
    place, is_first = start, True
    while place < len(text):
        found = _SENTENCE_END.search(text, place)
        end = found.start() if found else len(text)
        sentence = text[place:end].lstrip(_AROUND if not is_first else _AROUND.replace("(", ""))
        place = found.end() if found else len(text)
        if sentence or is_first:
            yield sentence, found.group() if found else ""
        is_first = False


def _is_denied_in(rest: str, own: list[str], gives_other: GivesOther) -> bool:
    """Return True if the rest of an answer's sentence is against the answer."""
    if not rest:
        return False
    words = tokens_in(rest)
    if takes_back(words) or trails_off(words) or has_sign(rest[:_NEAR_CHARS]):
        return True
    arrow = _ARROW.match(rest)
    if _UNEQUAL.match(rest) or (arrow is not None and gives_other(rest[arrow.end() :])):
        return True
    is_reason = False
    for at, clause in enumerate(clauses(rest)):
        first = clause.words[0]
        words = without_links(clause.words)
        if (words and words[0] in REASONS) or is_reason:
            is_reason = first not in LINKS or not REASONS.isdisjoint(words[:1])
            if is_reason:
                continue
        if words and is_against(words, own, is_first=at == 0, is_apart=clause.is_apart):
            return True
        if (first != "or" or at == 0) and first in REPLACING and gives_other(clause.text):
            return True
    return False


def _retracts(sentence: str) -> bool:
    """Return True if a sentence takes back the text before it: Wait. No, it is 8. Edit: 8."""
    tokens = [token for token in tokens_in(sentence) if token not in QUIET]
    if len(tokens) <= _NEAR + 1 and trails_off(tokens):
        return True
    words = without_links(tokens)
    if not words:
        return False
    if words[0] in RETRACTIONS:
        return words[0] != "no" or _is_exclaimed(words)
    if words[0] in NOTES_OF_CHANGE and words[1:2] == [":"]:
        return True
    bare = [word for word in words if word not in CLAUSE_MARKS]
    if bare and len(bare) <= _NEAR and is_remark(bare):
        return True
    return takes_back(tokens) or has_sign(sentence[:_NEAR_CHARS])


def _is_exclaimed(words: list[str]) -> bool:
    after = words[1:2]
    return not after or after[0] in CLAUSE_MARKS or after[0] in AFTER_NO


def _speaks_against(sentence: str, own: list[str], is_near: bool) -> bool:
    """Return True if a sentence is about the answer and against it: That is wrong. It isn't 7."""
    tokens = [token for token in tokens_in(sentence) if token not in QUIET]
    while tokens and (tokens[0] in LINKS or tokens[0] in CLAUSE_MARKS):
        tokens = tokens[1:]
    if not tokens or (tokens[0] in POINTERS and not is_near):
        return False
    said = said_of_answer(tokens, own)
    if not said or not is_predicate(said):
        return False
    if own and said[-len(own) :] == own and any(is_negation(word) for word in said[:_NEAR]):
        return True
    near = said[: 2 * _NEAR]
    return is_negative(near, of_noun=True) or not GUESSES.isdisjoint(near) or is_past(near)
