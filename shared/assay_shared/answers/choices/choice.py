"""The chosen option of a multiple choice; none if a text hedges or names several options."""

import re
from collections.abc import Sequence
from functools import lru_cache, partial

from assay_shared.answers.boxes import Box, boxes, last_box, last_tag, tags, without_struck
from assay_shared.answers.choices.options import (
    LETTERS,
    MAX_OPTION,
    WIDE_LETTERS,
    ChoiceOptions,
    option_key,
    undecorated,
)
from assay_shared.answers.extraction import last_match, marked_answers
from assay_shared.answers.formulas.latex import plain, words_of
from assay_shared.answers.remarks import is_denied, is_denied_before, is_withdrawn
from assay_shared.answers.values.quantity import parse_quantity
from assay_shared.text.reasoning import after_reasoning

#: A choice stands at the end of a text, or at its start; the middle is not searched.
_MAX_SEARCHED = 8192
_MAX_MARKS = 16
_BOXED = re.compile(r"boxed|</answer>", re.IGNORECASE)
#: Characters by which another spelling may be longer than an option's text.
_MAX_LONGER = 24
_LABEL = re.compile(
    r"(?:(?:the )?(?:correct |final |best |right )?(?:option|choice|answer)(?: is)?[:：]? ?)?"
    r"[(\[]?(?P<letter>[A-Za-z])[)\]]?[.:,!]?"
    r"(?:(?P<rest>(?<=[)\].:,])(?: .*)?)|(?: (?:--|[-–—]) (?P<dashed>.*))?)",
    re.IGNORECASE | re.DOTALL,
)
_SAYS = (
    r"(?:\ (?:is|was|are|will\ be|must\ be|should\ be|would\ be|has\ to\ be|=))?"
    r"(?:\ (?:therefore|thus|hence|clearly|then|indeed|simply|definitely))?"
    r"(?:\ ?[:：])?\ ?(?:option\ |choice\ |letter\ |answer\ )?"
)
_CLAIM = re.compile(
    rf"""
    \b(?:answer|correct\ (?:option|choice|one|response)|(?:best|right)\ (?:option|choice|one)
      |my\ choice|(?:solution|choice|option)(?=\ is|\ ?[:：])) {_SAYS}
    | \b(?:I|we)(?:\ (?:would|will|shall|must)|'ll|'d)?\ (?:choose|pick|select|chose|go\ with|say)
      \ (?:option\ |choice\ |answer\ )?
    | (?:^|(?<=[.!?]\ ))(?:(?:so|thus|hence|therefore),?\ (?:it\ is\ |it's\ |it\ must\ be\ )?
      |it\ is\ |it's\ |it\ must\ be\ )(?:option\ )?
    | (?:答案|选|選)(?:应该|應該)?(?:是|为|為|选|選)?\ ?[:：]?\ ?
    | \b(?:respuesta|réponse|antwort|risposta|resposta|ответ|odpowiedź|antwoord|svar|cevap)
      (?:\ (?:correcta|correcte|corretta|correta))?(?:\ (?:es|est|ist|è|é|är|er))?\ ?[:：]?\ ?
    | (?:答え|正解|정답)(?:は|은)?\ ?[:：]?\ ?
    """,
    re.IGNORECASE | re.VERBOSE,
)
#: Beginnings of a claim in an ASCII text: one of these; a pronoun before one of _CHOOSING; or one
#: of _LEADING, at the start of the text or of a sentence.
_OPENINGS = (
    *("answer", "correct", "best", "right", "my choice", "solution", "choice", "option"),
    *("respuesta", "antwort", "risposta", "resposta", "antwoord", "svar", "cevap"),
)
_CHOOSING = (" choose", " pick", " select", " chose", " go with", " say")
_LEADING = ("so", "thus", "hence", "therefore", "it ", "it's ")
_PRONOUN = re.compile(r"\b(?:i|we)\b")
_SENTENCE_LEAD = re.compile(rf"[.!?]\ (?={'|'.join(_LEADING)})")
#: "B is correct": the letter comes first.
_CORRECT = re.compile(
    r"(?<![\w/|&])(?:option |choice |answer )?\(?(?P<letter>[A-Z])\)? (?:is|must be) (?:the )?"
    r"(?:only |most )?(?:correct|right|best|true|appropriate|answer)"
    r"(?: (?:answer|option|choice|one|statement))?"
    r"(?=[.!,;]|$| because| since)",
    re.IGNORECASE,
)
#: Every match of _CORRECT contains this, in lower case.
_PRAISE = re.compile(
    r" (?:is|must be) (?:the )?(?:only |most )?(?:correct|right|best|true|appropriate|answer)"
)
#: "Bob's answer is B" is not the text's own choice.
_SOMEONES = re.compile(r"(?<!\blet)'s\s*\Z")
#: "C is better", said of an option after another option.
_BETTER = re.compile(
    r"\(?(?P<letter>[A-Z])\)? (?:is|seems|looks|must be|would be) (?:the |a |much |more |even )*"
    r"(?:better|best|correct|right|likely|closer|stronger|safer)\b"
)
#: Words between an answer and another option, if the other option replaces the answer.
_REPLACES = re.compile(
    r"\W*(?:(?:so|now|but|or|rather|instead|actually|no|hence|thus|therefore|then|in fact"
    r"|ultimately|alternatively|maybe|perhaps|it is|it's|it should be|should be|i mean|i meant"
    r"|i'd say|make (?:that|it))\b\W*)+",
    re.IGNORECASE,
)
#: ", so C." at the end of a sentence, and "Lyon is right".
_CONCLUDES = re.compile(
    r"[,;:]\s(?:so|hence|thus|therefore|which makes it|making it)\s(?:it(?:'s|\sis)\s)?"
    r"([^,;]{1,200})\Z"
)
_PRAISED = re.compile(
    r"\A(.{1,200}?)\s(?:is|must be|seems|looks)\s(?:the\s)?(?:more\s|most\s)?"
    r"(?:right|correct|best|true|likely|better)\b",
    re.DOTALL,
)
_REASON = re.compile(
    r",? (?:because|since|as|for the reason|due to|which|where)\b|,? (?:is|being) correct\b"
)
_SENTENCES = re.compile(r"[.!?;:\n]\s|,\s(?:so|thus|hence|therefore|and)\b|\n")
#: "Answer:" may stand on a separate line.
_BREAK = re.compile(r"(?::?\n)?")
_END = re.compile(r"[.!]?(?:\Z|(?<=[.!])\s)")
_LETTER = re.compile(r"[(\[]?([A-Za-z])(?![\w'])[)\]]?")
_AFTER_LETTER = re.compile(r"[.:,]?(?: (?:--|[-–—])(?= ))? ?")
_STOP = re.compile(r"[.!?](?:\s|$)")
_FULL_STOP = re.compile(r"[.!](?:\s|$)")
_BECAUSE = re.compile(r",? (?:because|since)\b")


def chosen_letter(text: str, options: ChoiceOptions) -> str | None:
    """Return the letter of the option chosen by a text; None unless exactly one is chosen.

    In this order: the boxed text, the text tagged as the answer, the text after ####; the whole
    text; the last "the answer is B" or similar; the last line; the first line. Each names an option
    by its letter, by its text, or by both.
    """
    text = after_reasoning(text)
    head, text = text[:MAX_OPTION], without_struck(text[-_MAX_SEARCHED:])
    box = last_box(text) or last_tag(text)
    if box is not None:
        return _boxed_option(text, box, options)
    marked = marked_answers(text)
    if marked:
        only = _only_option(marked, options)
        end = text.rindex(marked[-1]) + len(marked[-1])
        return None if only is None or _is_withdrawn(text, end, only, options) else only
    # A lone full-width letter may be another letter of the same shape.
    whole = named_option(text, options) if text.strip() not in WIDE_LETTERS else None
    if whole is not None:
        return whole
    lines = [bare for line in text.strip().splitlines() if (bare := _bare(line))]
    if not lines:
        return None
    has_claim, claimed = _last_claim("\n".join(lines), options)
    if has_claim:
        return claimed
    if len(lines) < 2:
        return _with_reason(lines[0], options)
    last = named_option(lines[-1], options)
    if last is None:
        return _first_line(head, lines, options)
    return last if named_option(lines[-2], options) in (None, last) else None


def _only_option(marked: Sequence[str], options: ChoiceOptions) -> str | None:
    """Return the option of the last marked text, if no earlier text (no heading) names another."""
    last = named_option(marked[-1], options)
    others = (named_option(text, options) for text in marked[-_MAX_MARKS:-1])
    return None if any(other not in (None, last) for other in others) else last


def _boxed_option(text: str, last: Box, options: ChoiceOptions) -> str | None:
    """Return the option in the last box.

    Return None if the text denies it, or if the same sentence has another option in a box.
    """
    named = named_option(last.content, options)
    if named is None:
        return None
    gives_other = partial(_gives_other, named=named, options=options)
    if is_denied(text, last.start, last.end, last.content, gives_other):
        return None
    before = text[: last.start]
    end = last.start
    for box in reversed([*boxes(before), *tags(before)]) if _BOXED.search(before) else ():
        if _SENTENCES.search(text, box.end, end):
            break
        if named_option(box.content, options) not in (None, named):
            return None
        end = box.start
    return named


def _is_withdrawn(text: str, end: int, named: str, options: ChoiceOptions) -> bool:
    """Return True if the text after an option takes it back, or names another option."""
    return is_withdrawn(text, end, named, partial(_gives_other, named=named, options=options))


def _gives_other(said: str, named: str, options: ChoiceOptions) -> bool:
    """Return True if a sentence or clause chooses an option other than `named`: so B."""
    replaces = _REPLACES.match(said)
    if replaces is not None:
        other = named_option(said[replaces.end() :].strip(" .").removesuffix("instead"), options)
        if other not in (None, named):
            return True
    concludes = last_match(_CONCLUDES, said)
    if concludes is not None and named_option(concludes[1], options) not in (None, named):
        return True
    praised = _PRAISED.search(said)
    if praised is not None:
        text = praised[1].rpartition(": ")[2].rpartition(", ")[2]
        lead = _REPLACES.match(text)
        if _by_text(text[lead.end() :] if lead else text, options) not in (None, named):
            return True
    better = _BETTER.search(said)
    if better is not None and options.letter(better["letter"]) not in (None, named):
        return True
    bare = _bare(said)
    claim = _last_claiming(bare)
    other = _said(bare, claim.end(), options)[0] if claim is not None else None
    return (
        other not in (None, named) and claim is not None and not is_denied_before(bare, claim.end())
    )


def _with_reason(line: str, options: ChoiceOptions) -> str | None:
    """Return the option that begins a line, with its text or a reason: B. Paris is the capital."""
    label = _LETTER.match(line)
    letter = options.letter(label[1]) if label is not None and label[1].isupper() else None
    if label is None or letter is None:
        return None
    end, rest = label.end(), line[label.end() :]
    if _by_text(rest.lstrip(".:, "), options) not in (None, letter):
        return None
    if not _REASON.match(rest):
        between = _AFTER_LETTER.match(rest)
        own = options.texts[LETTERS.index(letter)]
        said = rest[between.end() :] if between is not None else ""
        if (
            not said.casefold().startswith(own.casefold())
            or said[len(own) : len(own) + 1].isalnum()
        ):
            return None
        end += len(rest) - len(said) + len(own)
    return None if _is_withdrawn(line, end, letter, options) else letter


def _first_line(head: str, lines: list[str], options: ChoiceOptions) -> str | None:
    """Return the option named by the first line, if the other lines do not take it back."""
    first = head.strip().partition("\n")[0]
    named = named_option(first, options)
    if named is None or _is_withdrawn("\n".join([first, *lines[1:]]), len(first), named, options):
        return None
    return named


@lru_cache(maxsize=1024)
def _bare(line: str) -> str:
    """Return the line without emphasis, LaTeX and quotation marks."""
    bare = " ".join(undecorated(line).split()).strip("_")
    if "\\" not in bare and "$" not in bare:
        return bare
    return words_of(plain(bare)) + "." * bare.endswith(".")


def named_option(text: str, options: ChoiceOptions) -> str | None:
    """Return the letter of an option given as "B", "(b)", "Option B", "B) London" or "London"."""
    bare = _bare(text.strip()) if len(text) <= MAX_OPTION else ""
    if not bare:
        return None
    by_text = _by_text(bare, options)
    labelled = _LABEL.fullmatch(bare)
    if labelled is None or (letter := options.letter(labelled["letter"])) is None:
        return by_text
    said = (labelled["rest"] or labelled["dashed"] or "").strip()
    if said:
        return letter if _is_text_of(said, letter, options) else by_text
    exactly = options.by_key.get(option_key(bare), letter)
    return letter if exactly == letter or by_text == letter else None


def _by_text(text: str, options: ChoiceOptions) -> str | None:
    if len(text) > options.longest + _MAX_LONGER:
        return None
    key = option_key(text)
    for written in (key, key.casefold()):
        if written in options.by_key:
            return options.by_key[written]
    number = parse_quantity(text)
    if number is None:
        return None
    equal = [
        letter
        for letter, option in zip(LETTERS, options.texts, strict=False)
        if (other := parse_quantity(option)) is not None and number.equals(other)
    ]
    return equal[0] if len(equal) == 1 else None


def _last_claim(text: str, options: ChoiceOptions) -> tuple[bool, str | None]:
    """Return True and the last claimed option if the text claims an option; else False, None."""
    claim, correct = _last_claiming(text), _last_correct(text)
    if correct is not None and (claim is None or correct.end() >= claim.end()):
        letter = _praised(text, correct, options)
        start, end = correct.start(), correct.end()
    elif claim is not None:
        letter, end = _said(text, claim.end(), options)
        start = claim.end()
        if _SOMEONES.search(text[max(0, claim.start() - 8) : claim.start()]):
            return True, None
    else:
        return False, None
    if letter is None or is_denied_before(text, start) or _is_withdrawn(text, end, letter, options):
        return True, None
    return True, letter


def _last_claiming(text: str) -> re.Match[str] | None:
    """Return `last_match(_CLAIM, text)`, trying only possible beginnings: a tenth of the places."""
    if not text.isascii():
        return last_match(_CLAIM, text)
    claim = None
    for start in _openings(text.lower()):
        if claim is None or start >= claim.end():
            claim = _CLAIM.match(text, start) or claim
    return claim


def _openings(text: str) -> list[int]:
    """Return all possible beginnings of a claim in a text in lower case, and others, in order."""
    found = [0] if text.startswith(_LEADING) else []
    lead = _SENTENCE_LEAD.search(text)
    while lead is not None:
        found.append(lead.end())
        lead = _SENTENCE_LEAD.search(text, lead.end())
    for opening in [one for one in _OPENINGS if one in text]:
        at = text.find(opening)
        while at >= 0:
            found.append(at)
            at = text.find(opening, at + 1)
    if [one for one in _CHOOSING if one in text]:
        found += [one.start() for one in _PRONOUN.finditer(text)]
    found.sort()
    return found


def _last_correct(text: str) -> re.Match[str] | None:
    """Return `last_match(_CORRECT, text)`, fast for the usual text without praise."""
    if text.isascii() and _PRAISE.search(text.lower()) is None:
        return None
    return last_match(_CORRECT, text)


def _praised(text: str, correct: re.Match[str], options: ChoiceOptions) -> str | None:
    """Return the option said to be correct; None if the words are another option's text."""
    letter = options.letter(correct["letter"])
    line = text[correct.end("letter") :][:MAX_OPTION].partition("\n")[0]
    return letter if _by_text(line.lstrip(")]. "), options) in (None, letter) else None


def _said(text: str, start: int, options: ChoiceOptions) -> tuple[str | None, int]:
    """Return the option named by a claim from `start` on, and the end of the claim."""
    start += len(_BREAK.match(text, start).group())  # type: ignore[union-attr]  # it may be empty
    line, _, _ = text[start : start + MAX_OPTION].partition("\n")
    label = _LETTER.match(line)
    if label is not None and (letter := options.letter(label[1])) is not None:
        rest = line[label.end() :]
        if _END.match(rest) or _REASON.match(rest):
            return letter, start + label.end()
        said = _AFTER_LETTER.match(rest)
        rest = rest[said.end() if said else 0 :]
        return _followed_by_text(rest, letter, options), start + len(line)
    sentence = _STOP.split(line, maxsplit=1)[0]
    if line[len(sentence) :].startswith("?"):
        return None, start
    return _by_text(sentence, options), start + len(sentence)


def _followed_by_text(rest: str, letter: str, options: ChoiceOptions) -> str | None:
    """Return the letter, if the rest of the sentence is just its option's text, else None."""
    sentence = _FULL_STOP.split(rest, maxsplit=1)[0]
    reasoned = _BECAUSE.split(sentence, maxsplit=1)[0]
    said = (sentence, rest.rstrip(". "), reasoned)
    return letter if any(_is_text_of(text, letter, options) for text in said) else None


def _is_text_of(text: str, letter: str, options: ChoiceOptions) -> bool:
    key, own = option_key(text), option_key(options.texts[LETTERS.index(letter)])
    folded = key.casefold()
    return key == own or (folded == own.casefold() and options.by_key[folded] == letter)
