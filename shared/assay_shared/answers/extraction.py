"""Which part of a text is its answer."""

import re
from collections import deque
from enum import StrEnum

from assay_shared.answers.amounts import changes_number, is_part
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

#: An answer stands at the end of a text; what stands further ahead is not searched.
_MAX_SEARCHED = 16_384
_MAX_SHORT = 200
_MARKED = re.compile(r"####[ \t]*+(\S[^\n]*+)")
_FENCE = re.compile(r"```[\w+-]*+[ \t]*+\n")
_CLAIM = re.compile(
    r"\b(?:answer|result|solution)\b(?:\s(?:is|are|equals|would be|must be|should be)\b(?!n't))?+"
    r"[ \t]*+(?:[:=][ \t]*+)?+(?:\*\*[ \t]*+)?+([^\n]++)",
    re.IGNORECASE,
)
#: What may stand before "the answer is" where it gives words: anything else might deny them.
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
#: "The answer is 8" before other words, but no sum that begins with 8.
_NUMBER_CLAIM = re.compile(
    rf"\banswer(?:\sis)?+[ \t]*+[:=]?+[\s$*]*+(-?(?:{_NUMBER}))"
    r"(?:[.,;]?\s(?!\s?[-+*/^=×·<>(]\s?\d)|\s?\()",
    re.IGNORECASE,
)
_SCALED = rf"(?:\s(?:{'|'.join((*SCALES, *SHARES))})\b)?+"
_QUANTITY = re.compile(
    rf"(?:(?<![\w)}}\]])[-+−])?+\\?[$€£¥]?+-?(?:{_NUMBER}){_SCALED}(?:\s?\\?(?:{UNIT_PATTERN})(?![^\W\d_]))?+"
)
#: A quantity just before another one: 1 hour and 30 minutes are one value, if they are any.
_LARGER = re.compile(rf"(?<![\w.,/])(?:{_NUMBER})\s?(?:{UNIT_PATTERN})(?:,?\sand\s|,?\s)\Z")
#: A number with one of these beside it is a part of a formula, or one of several.
_PART_BEFORE = re.compile(
    r"(?:[-+*/^_×·÷√<>≤≥≠≈±(\[{\\|!]|\d[,;]?+\s|\d[,;]|\d:|\\[A-Za-z]++"
    r"|(?:\bor|\band|\bnot|\bto)\s)\s*+\Z|[\w})\]]\Z",
    re.IGNORECASE,
)
_PART_AFTER = re.compile(
    r"\s(?:\w{3,12}ths)\b|\s*+(?:[*/^_×·÷<>≤≥≠±=\\{|!]|[-+]\s?[\w\\(]|[(\[]?\w*\d)|\+|[^\W\d_]"
)
#: Characters around a number or box that may make it a part of more.
_MAX_AROUND = 24
_MAX_LEAD = 80
#: Markdown's bold and code, quotation marks, and one star on either side: no operators.
_MARKS = re.compile(
    r"(?<![\w)\]}])\*\*(?! )|(?<! )\*\*(?![\w(\\]|-[\w(\\])"
    r"|(?<!\w)__(?=\S)|(?<=\S)__(?!\w)|[`\"\u201c\u201d]"
)
_STARRED = re.compile(r"(?<![\w*)\]}])\*(?! )([^*\n]{1,80})(?<! )\*(?![\w*(])")
#: Two letters and more that stand alone.
_WORD = re.compile(r"(?<![^\s(])[a-z]{2,}(?![^\s).,])")
#: Words that lead to a value and would be letters of a formula.
_LEAD = re.compile(r"\A(?:so|thus|hence|then|therefore|it is|it's|is)\b[,:]? +", re.IGNORECASE)
#: A text of digits: a date, a score, a telephone number.
_FIGURES = re.compile(r"[\d\s().,/%$+-]*\d[\d\s().,/%$+-]*")
#: Letters of scripts that write no formulas, and the check marks around an answer.
_FOREIGN = re.compile(r"[\u0400-\u04ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2}")
_TICKS = "✅✔☑✓🎉🎯👍\ufe0f "
_OTHER = re.compile(rf"-?\\?[$]?\s?-?(?:{_NUMBER})")
_SEVERAL = re.compile(r"(?:\$|\\\)|\d)\s*+(?:,|;|or|and)?+\s*+(?:or|and|not)?+\s*+\Z")


class Extract(StrEnum):
    """What is compared: all of the text, its last line, or the last of what is marked as the
    answer: by <answer>...</answer>, by \\\\boxed{...}, after ####, or between fences.
    """

    WHOLE = "whole"
    LAST_LINE = "last_line"
    TAGGED = "tagged"
    BOXED = "boxed"
    MARKED = "marked"
    FENCED = "fenced"


def extract(text: str, part: Extract) -> str | None:
    """The part of the text without the space around it; None if it is not there."""
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
    """The content of the last outermost \\boxed{...} that is closed.

    With what stands around a box that is a part of a formula, as in -\\boxed{7}: it is not 7.
    """
    box = last_box(text)
    return None if box is None else box.content


def _undenied(text: str, box: Box | None) -> str | None:
    """What is marked as the answer, if the text around it does not deny it."""
    if box is None:
        return None
    first = max(0, box.start - _MAX_LEAD * 2)
    around = text[first : box.end + _MAX_SEARCHED]
    place = Box(box.content, box.start - first, box.end - first)
    return None if _is_denied(around, place) else box.content


def _last_mark(text: str) -> Box | None:
    """As `last_marked`, with the place."""
    marked = last_match(_MARKED, text) if "####" in text else None
    return None if marked is None else Box(marked[1].strip(), marked.start(), marked.end())


def last_marked(text: str) -> str | None:
    """What follows the last #### on its line."""
    marked = _last_mark(text)
    return None if marked is None else marked.content


def marked_answers(text: str) -> list[str]:
    """What follows each #### on its line."""
    return _MARKED.findall(text) if "####" in text else []


def last_tagged(text: str) -> str | None:
    """What stands between the last <answer> and </answer> that belong together."""
    tag = last_tag(text)
    return None if tag is None else tag.content


def last_fenced(text: str) -> str | None:
    """What stands between the last two ``` that belong together."""
    blocks = fenced(text)
    return blocks[-1].strip() if blocks else None


def fenced(text: str) -> list[str]:
    """What stands between fences of ```, block by block, without the line of the first fence."""
    blocks: list[str] = []
    place = 0
    while (opened := _FENCE.search(text, place)) is not None:
        closed = text.find("```", opened.end())
        if closed < 0:
            break
        blocks.append(text[opened.end() : closed])
        place = closed + 3
    return blocks


def whole_reference(text: str) -> str:
    """A reference as it stands, unless it marks its answer with \\\\boxed{} or ####."""
    boxed = last_boxed(text)
    if boxed is not None:
        return boxed
    marked = last_marked(text)
    return text.strip() if marked is None else marked


def _without_emphasis(text: str) -> str:
    return _STARRED.sub(r"\1", _MARKS.sub("", text))


def final_answer(text: str) -> str | None:
    """What a text gives as its answer to a question with one value; None if it gives none.

    In this order: the last \\\\boxed{}, <answer></answer>, what follows the last ####, the whole
    text if it is a value, what "the answer is" says, the last formula or number that stands alone.
    What the text itself denies, doubts, takes back or strikes through is no answer.
    """
    text = without_struck(text[-_MAX_SEARCHED:])
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
    """Whether the words around an answer say that it is none, or another one follows."""

    def gives_other(said: str) -> bool:
        return _gives_another(said, box.content)

    return is_denied(text, box.start, box.end, box.content, gives_other)


def _gives_another(said: str, own: str) -> bool:
    """Whether a sentence gives another number as the answer: it is 8, I'd rather say 8."""
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
    """The last place where the pattern is in the text from `start` on."""
    last = deque(pattern.finditer(text, start), maxlen=1)
    return last[0] if last else None


def _claimed(text: str) -> str | None:
    """What the last "the answer is" says, if that is a value."""
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
    """Whether a claim is a sentence of its own: So the answer is Paris."""
    return bool(_LEADS_TO_CLAIM.search(text[max(0, claim.start() - _MAX_LEAD) : claim.start()]))


def _claims_another(text: str, standing: str) -> bool:
    """Whether "the answer is 8" stands before another number, as in "8, which exceeds 7"."""
    found = last_match(_NUMBER_CLAIM, text)
    if found is None:
        return False
    one, other = quantity_of(plain(found[1])), quantity_of(plain(standing))
    return one is not None and other is not None and one.value != other.value


def _is_value(text: str) -> bool:
    """Whether the text is a number or a formula, alone or as the value of a name."""
    if not text.isascii() and _FOREIGN.search(text):
        return False
    value = value_of(plain(text))
    if isinstance(value, Named):
        value = value.value
    if isinstance(value, Formula):
        return bool(text.strip(".!? ")) and not set(_WORD.findall(text.lower())) - FORMULA_NAMES
    return not isinstance(value, Words) or _FIGURES.fullmatch(value.text) is not None


def _last_standing(text: str) -> str | None:
    """The last formula between delimiters, or number outside of them, that is no part of more."""
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
    """The last number from `start` on, with its sign, its currency and its unit where it is known;
    None if it is a part of a formula, or one of several."""
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
