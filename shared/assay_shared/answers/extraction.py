"""Extraction of the answer from a text."""

import re
from collections import deque
from enum import StrEnum

from assay_shared.answers.amounts import changes_number, is_part
from assay_shared.answers.arithmetic import result_of
from assay_shared.answers.boxes import Box, boxes, last_box, last_tag, without_struck
from assay_shared.answers.clauses import tokens_in
from assay_shared.answers.formulas.latex import plain
from assay_shared.answers.formulas.styles import unstyled
from assay_shared.answers.joined_boxes import joined
from assay_shared.answers.remark_words import CLAIMING
from assay_shared.answers.remarks import is_denied, is_denied_before
from assay_shared.answers.values.quantity import SCALES, SHARES, quantity_of
from assay_shared.answers.values.structure import FORMULA_NAMES, value_of
from assay_shared.answers.values.unit_table import UNIT_PATTERN
from assay_shared.answers.values.values import Formula, Named, Words
from assay_shared.text.reasoning import after_reasoning

#: An answer stands at the end of a text; only this number of characters is searched.
_MAX_SEARCHED = 16_384
_MAX_SHORT = 200
_MARKED = re.compile(r"####[ \t]*+(\S[^\n]*+)")
#: A fence that begins its line may be longer, of tildes, and have more words: ```python title=a.
_FENCE = re.compile(
    r"(?:^[ \t]*+(?P<mark>`{3,}+|~{3,}+)[^`\n]*+|```[\w+-]*+[ \t]*+\r?)\n", re.MULTILINE
)
_CLAIM = re.compile(
    r"\b(?:answer|result|solution)\b(?:\s(?:is|are|equals|would be|must be|should be)\b(?!n't))?+"
    r"[ \t]*+(?:[:=][ \t]*+)?+(?:\*\*[ \t]*+)?+([^\n]++)",
    re.IGNORECASE,
)
#: Permitted words before "the answer is Paris": any other words might deny it.
_LEADS_TO_CLAIM = re.compile(
    r"(?:\A|[.!\n:]\s*+)(?:(?:so|thus|hence|therefore|then|finally|and|in\ conclusion)\b[\s,]*+)*+"
    r"(?:(?:the|my|our|final|correct|right)\s++)*+\Z",
    re.IGNORECASE,
)
_NO_WORDS = re.compile(r"[\d$\\?]")
_MATHS = re.compile(
    r"\$\$([^$]++)\$\$|\$([^$\n]++)\$"
    r"|\\\(((?:[^\\]|\\[^)(])*+)\\\)|\\\[((?:[^\\]|\\[^\][])*+)\\\]"
)
_NUMBER = r"(?:\d{1,3}(?:,\d{3})++(?!\d)|\d++)(?:\.\d++)?+(?:/[1-9]\d*+)?+|\.\d++"
#: "The answer is 8" followed by other words, but not by the rest of a sum: 8 + 1.
_NUMBER_CLAIM = re.compile(
    rf"\banswer(?:\sis)?+[ \t]*+[:=]?+[\s$*]*+(-?(?:{_NUMBER}))"
    r"(?:[.,;]?\s(?!\s?[-+*/^=×·<>(]\s?\d)|\s?\()",
    re.IGNORECASE,
)
_SCALED = rf"(?:\s(?:{'|'.join((*SCALES, *SHARES))})\b)?+"
_QUANTITY = re.compile(
    rf"(?:(?<![\w)}}\]])[-+−])?+\\?[$€£¥]?+-?(?:{_NUMBER}){_SCALED}(?:\s?\\?(?:{UNIT_PATTERN})(?![^\W\d_]))?+"
)
#: A quantity just before another one: 1 hour and 30 minutes are a single value, if valid.
_LARGER = re.compile(rf"(?<![\w.,/])(?:{_NUMBER})\s?(?:{UNIT_PATTERN})(?:,?\sand\s|,?\s)\Z")
#: Signs next to a number: the number is then part of a formula, or of a list of numbers.
_PART_BEFORE = re.compile(
    r"(?:[-+*/^_×·÷√<>≤≥≠≈±(\[{\\|!]|[!<>]=|\d[,;]?+\s|\d[,;]|\d:|\\[A-Za-z]++"
    r"|(?:\bor|\band|\bnot|\bto)\s)\s*+\Z|[\w})\]]\Z",
    re.IGNORECASE,
)
_PART_AFTER = re.compile(
    r"\s(?:\w{3,12}ths)\b|\s*+(?:[*/^_×·÷<>≤≥≠±=\\{|!]|[-+]\s?[\w\\(]|[(\[]?\w*\d)|\+|[^\W\d_]"
)
#: Characters to check around a number or box: they may make it part of a larger value.
_MAX_AROUND = 24
_MAX_LEAD = 80
#: Markdown's bold and code, quotation marks, and one star on either side: no operators.
_MARKS = re.compile(
    r"(?<![\w)\]}])\*\*(?! )|(?<! )\*\*(?![\w(\\]|-[\w(\\])"
    r"|(?<!\w)__(?=\S)|(?<=\S)__(?!\w)|[`\"\u201c\u201d]"
)
_STARRED = re.compile(r"(?<![\w*)\]}])\*(?! )([^*\n]{1,80})(?<! )\*(?![\w*(])")
#: Two letters or more, standing alone.
_WORD = re.compile(r"(?<![^\s(])[a-z]{2,}(?![^\s).,])")
#: Words before a value: otherwise they would be read as letters of a formula.
_LEAD = re.compile(r"\A(?:so|thus|hence|then|therefore|it is|it's|is)\b[,:]? +", re.IGNORECASE)
#: A text of digits: a date, a score, a telephone number.
_FIGURES = re.compile(r"[\d\s().,/%$+-]*\d[\d\s().,/%$+-]*")
#: Letters of scripts without formulas, and the check marks around an answer.
_FOREIGN = re.compile(r"[\u0400-\u04ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2}")
#: A matrix may be written over several lines.
_MATRIX = re.compile(
    r"\\begin\{[pbvBV]?matrix\}[^\\]{0,2000}(?:\\(?!end\b)[^\\]{0,2000}){0,200}\\end"
)
_ALTERNATIVE = re.compile(r"[\s*_$]*(?:and/)?or\s(?!so\b)\S")
_TICKS = "✅✔☑✓🎉🎯👍\ufe0f "
_OTHER = re.compile(rf"-?\\?[$]?\s?-?(?:{_NUMBER})")
_SEVERAL = re.compile(r"(?:\$|\\\)|\d)\s*+(?:,|;|or|and)?+\s*+(?:or|and|not)?+\s*+\Z")


class Extract(StrEnum):
    """The part of a text to compare: all of it, its last line, or the last marked answer: in
    <answer>...</answer>, in \\\\boxed{...}, after ####, or between fences.
    """

    WHOLE = "whole"
    LAST_LINE = "last_line"
    TAGGED = "tagged"
    BOXED = "boxed"
    MARKED = "marked"
    FENCED = "fenced"


def extract(text: str, part: Extract) -> str | None:
    """Return the part of the text, stripped of whitespace; None if the text has no such part.

    The answer begins after reasoning between tags such as <think>.
    """
    text = after_reasoning(text)
    match part:
        case Extract.WHOLE:
            return text.strip()
        case Extract.LAST_LINE:
            return text.strip().rpartition("\n")[2].strip()
        case Extract.BOXED:
            boxed = _undenied(text, last_box(text))
            return None if boxed is None else unstyled(boxed)
        case Extract.MARKED:
            return _undenied(text, _last_mark(text))
        case Extract.TAGGED:
            return _undenied(text, last_tag(text))
        case Extract.FENCED:
            return last_fenced(text)


def last_boxed(text: str) -> str | None:
    """Return the content of the last closed outermost \\boxed{...}.

    If the box is part of a formula, the result includes the rest of it: -\\boxed{7} is not 7.
    """
    box = last_box(text)
    return None if box is None else box.content


def _undenied(text: str, box: Box | None) -> str | None:
    """Return the marked answer of a box, unless the text around it denies it."""
    if box is None:
        return None
    if _ALTERNATIVE.match(text, box.end):
        return None
    first = max(0, box.start - _MAX_LEAD * 2)
    around = text[first : box.end + _MAX_SEARCHED]
    place = Box(box.content, box.start - first, box.end - first)
    return None if _is_denied(around, place) else box.content


def _last_mark(text: str) -> Box | None:
    """Return the text after the last #### on its line, with its place."""
    marked = last_match(_MARKED, text) if "####" in text else None
    return None if marked is None else Box(marked[1].strip(), marked.start(), marked.end())


def last_marked(text: str) -> str | None:
    """Return the text after the last #### on its line, or None."""
    marked = _last_mark(text)
    return None if marked is None else marked.content


def marked_answers(text: str) -> list[str]:
    """Return the text after each #### on its line."""
    return _MARKED.findall(text) if "####" in text else []


def last_tagged(text: str) -> str | None:
    """Return the text of the last <answer>...</answer>, or None."""
    tag = last_tag(text)
    return None if tag is None else tag.content


def last_fenced(text: str) -> str | None:
    """Return the content of the last fenced block (```), or None."""
    blocks = fenced(text)
    return blocks[-1].strip() if blocks else None


def fenced(text: str, *, unclosed: bool = False) -> list[str]:
    """Return the contents of all fenced blocks (``` or ~~~), without the line of the opening fence.

    `unclosed`: a last block without a closing fence ends with the text.
    """
    blocks: list[str] = []
    place = 0
    while (opened := _FENCE.search(text, place)) is not None:
        mark = opened["mark"] or "```"
        closed = text.find(mark, opened.end())
        if closed < 0:
            blocks += [text[opened.end() :]] * unclosed
            break
        blocks.append(text[opened.end() : closed])
        place = closed + len(mark)
    return blocks


def whole_reference(text: str) -> str:
    """Return the marked answer of a reference (\\\\boxed{} or ####), else the whole reference."""
    boxed = last_boxed(text)
    if boxed is not None:
        return boxed
    marked = last_marked(text)
    return text.strip() if marked is None else marked


def _without_emphasis(text: str) -> str:
    return _STARRED.sub(r"\1", _MARKS.sub("", text))


def final_answer(text: str) -> str | None:
    """Return the answer of a text to a question with a single value; None if there is none.

    In this order: the last \\\\boxed{}, <answer></answer>, the text after the last ####, the whole
    text if it is a value, the value after "the answer is", the last formula or number standing
    alone. An answer is ignored if the text denies, doubts, takes back or strikes it through, and
    so is reasoning between tags such as <think>. A sum that is written out gives its result.
    """
    answer = _last_answer(text)
    return None if answer is None else result_of(answer)


def _last_answer(text: str) -> str | None:
    text = without_struck(after_reasoning(text)[-_MAX_SEARCHED:])
    if "matrix}" in text:
        text = _MATRIX.sub(lambda found: found.group().replace("\n", " "), text)
    box = last_box(text) or last_tag(text) or _last_mark(text)
    if box is not None:
        if text.startswith("\\boxed", box.start) and text.find("boxed", 0, box.start) >= 0:
            box = Box(*joined(text, boxes(text[: box.start]), box))
        return None if _is_denied(text, box) else box.content
    text = _without_emphasis(text)
    bare = _LEAD.sub("", text.strip().strip(_TICKS), count=1)
    if not bare or (len(bare) <= _MAX_SHORT and "\n" not in bare and _is_value(bare)):
        return bare or None
    claimed = _claimed(text)
    if claimed is not None:
        return claimed
    standing = _last_standing(text)
    if standing is not None and _claims_another(text, standing):
        return None
    if standing is None and len(bare) <= _MAX_SHORT and "\n" not in bare:
        return bare
    return standing


def _is_denied(text: str, box: Box) -> bool:
    """Return True if the words around an answer deny it, or another answer follows."""

    def gives_other(said: str) -> bool:
        return _gives_another(said, box.content)

    return is_denied(text, box.start, box.end, box.content, gives_other)


def _gives_another(said: str, own: str) -> bool:
    """Return True if a sentence gives another number as the answer: it is 8, I'd rather say 8."""
    found = _OTHER.search(said)
    if found is None:
        return False
    lead = _words(said[max(0, found.start() - _MAX_LEAD) : found.start()])
    is_claim = "answer" in lead
    if not CLAIMING.issuperset(lead[-3:] if is_claim else lead):
        return False
    rest = said[found.end() :].strip(" $*.!)}").removesuffix("instead").rstrip()
    if rest and not is_claim:
        return False
    one, other = quantity_of(plain(own)), quantity_of(plain(found.group()))
    if other is None or (one is None and not is_claim):
        return False
    return one is None or one.value != other.value


def _words(text: str) -> list[str]:
    return [token for token in tokens_in(text) if token[0].isalpha()]


def last_match(pattern: re.Pattern[str], text: str, start: int = 0) -> re.Match[str] | None:
    """Return the last match of the pattern in the text from `start` on, or None."""
    last = deque(pattern.finditer(text, start), maxlen=1)
    return last[0] if last else None


def _claimed(text: str) -> str | None:
    """Return the value after the last "the answer is", or None."""
    found = last_match(_CLAIM, text)
    if found is None or found.end() < len(text.rstrip()):
        return None
    said = found[1].strip().strip(_TICKS).rstrip(".").strip()
    if len(said) > _MAX_SHORT or is_denied_before(text, found.start(1)):
        return None
    if _is_value(said) or (not _NO_WORDS.search(said) and _is_said_plainly(text, found)):
        return said
    return None


def _is_said_plainly(text: str, claim: re.Match[str]) -> bool:
    """Return True if a claim is a separate sentence: So the answer is Paris."""
    return bool(_LEADS_TO_CLAIM.search(text[max(0, claim.start() - _MAX_LEAD) : claim.start()]))


def _claims_another(text: str, standing: str) -> bool:
    """Return True if a text claims a number other than `standing`: the answer is 8, above 7."""
    found = last_match(_NUMBER_CLAIM, text)
    if found is None:
        return False
    one, other = quantity_of(plain(found[1])), quantity_of(plain(standing))
    return one is not None and other is not None and one.value != other.value


def _is_value(text: str) -> bool:
    """Return True if the text is a number or a formula, alone or as the value of a name."""
    if not text.isascii() and _FOREIGN.search(text):
        return False
    value = value_of(plain(text))
    if isinstance(value, Named):
        value = value.value
    if isinstance(value, Formula):
        return bool(text.strip(".!? ")) and not set(_WORD.findall(text.lower())) - FORMULA_NAMES
    return not isinstance(value, Words) or _FIGURES.fullmatch(value.text) is not None


def _last_standing(text: str) -> str | None:
    """Return the last formula in delimiters, or number outside; None if part of a larger value."""
    maths = last_match(_MATHS, text)
    after = maths.end() if maths is not None else 0
    number = last_quantity(text, after)
    if number is not None or maths is None:
        return number
    said = next(group for group in maths.groups() if group is not None).strip()
    box = Box(said, maths.start(), maths.end())
    return None if _is_a_part(text, maths) or _is_denied(text, box) else said


def _is_a_part(text: str, maths: re.Match[str]) -> bool:
    before = text[max(0, maths.start() - _MAX_AROUND) : maths.start()]
    return _SEVERAL.search(before) is not None or changes_number(before)


def last_quantity(text: str, start: int = 0) -> str | None:
    """Return the last number from `start` on, with its sign, its currency and its known unit;
    None if it is part of a formula, or of several numbers."""
    found = last_match(_QUANTITY, text, start)
    if found is None:
        return None
    before = text[max(start, found.start() - _MAX_AROUND) : found.start()]
    said, larger = found.group(), _LARGER.search(before)
    if larger is not None:
        said, before = larger.group() + said, before[: larger.start()]
    if _PART_BEFORE.search(before) or _PART_AFTER.match(text, found.end()):
        return None
    if changes_number(before) or is_part(text, found.end()):
        return None
    if _is_denied(text, Box(said, found.start(), found.end())):
        return None
    return said if quantity_of(plain(said)) is not None else None
