"""Which part of a text is its answer."""

import re
from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from assay_shared.answers.latex import plain
from assay_shared.answers.quantity import quantity_of
from assay_shared.answers.structure import FORMULA_NAMES, value_of
from assay_shared.answers.styles import unstyled
from assay_shared.answers.units import UNIT_NAMES
from assay_shared.answers.values import Formula, Named, Words

#: An answer stands at the end of a text; what stands further ahead is not searched.
_MAX_SEARCHED = 16_384
_MAX_SHORT = 200
_MARKED = re.compile(r"####[ \t]*+(\S[^\n]*+)")
_ANSWER = re.compile(r"<(/?)answer>", re.IGNORECASE)
_FENCE = re.compile(r"```[\w+-]*+[ \t]*+\n")
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{")
_BRACE = re.compile(r"[{}]")
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
_SCALED = r"(?:\s(?:dozen|hundred|thousand|million|billion|trillion)\b)?+"
_UNIT = "|".join(re.escape(name) for name in sorted(UNIT_NAMES, key=len, reverse=True))
_QUANTITY = re.compile(
    rf"(?:(?<![\w)}}\]])[-+−])?+\\?[$€£¥]?+-?(?:{_NUMBER}){_SCALED}(?:\s?\\?(?:{_UNIT})(?![^\W\d_]))?+"
)
#: A quantity just before another one: 1 hour and 30 minutes are one value, if they are any.
_LARGER = re.compile(rf"(?<![\w.,/])(?:{_NUMBER})\s?(?:{_UNIT})(?:,?\sand\s|,?\s)\Z")
#: Words that make another value of the number after them, or deny it.
_CHANGES = (
    r"\b(?:minus|negative|than|least|most|below|above|over|under|exceeds|instead\ of|step|page"
    r"|question|equation|figure|table|chapter|section|problem|exercise|never|cannot\ be|can't\ be"
    r"|anything\ but|far\ from|almost|nearly|twice|double|triple"
    r"|(?:half|root|cube|square|reciprocal|opposite|negative)\ of)\s++\Z"
)
#: A number with one of these beside it is a part of a formula, or one of several.
_PART_BEFORE = re.compile(
    r"(?:[-+*/^_×·÷√<>≤≥≠≈±(\[{\\|!]|\d[,;]?+\s|\d[,;]|\d:|\\[A-Za-z]++"
    r"|(?:\bor|\band|\bnot|\bto)\s)\s*+\Z|[\w})\]]\Z"
    rf"|{_CHANGES}",
    re.IGNORECASE,
)
_PART_AFTER = re.compile(
    r"\s(?:halves|thirds|quarters|\w{3,12}ths|hundreds?|thousands?|millions?|billions?|dozens?"
    r"|scores|pairs|times|over|point|squared|cubed|factorial|below|or|to"
    r"|and\ an?\ (?:half|third|quarter)|(?:more|less|fewer)\ than"
    r"|(?:is|was) (?:wrong|incorrect|not)|isn't|wasn't)\b|"
    r"\s*+(?:[*/^_×·÷<>≤≥≠±=\\{|!]|[-+]\s?[\w\\(]|[(\[]?\w*\d)|[^\W\d_]"
)
#: Characters around a number or box that may make it a part of more.
_MAX_AROUND = 24
_MAX_LEAD = 80
#: What a box cannot be the whole of: a sign or factor before it, a power, factor or letter after.
_OPERATOR_BEFORE = re.compile(
    r"(?:(?:(?<![A-Za-z])[A-Za-z]|[\d}])\ ?[-+*/^<>]\ ?|-|\d\.?|[_^]\{"
    r"|\\(?:neq?|leq?|geq?|lt|gt|times|cdot|div|sqrt|pm|log|ln|sin|cos|tan|not)\b[\ {]?"
    r"|\\[dt]?frac\{(?:[^{}]{0,16}\}\{)?)\Z"
)
_OPERATOR_AFTER = re.compile(
    r"\ ?(?:\\?%|°|\^\{?\\circ\}?"
    r"|(?:\\text\{\ ?)?(?:percent|hundred|thousand|million|billion|dozen)\b)"
    r"|\ [-+*/]\ [\d\\(]|\ ?(?:\^|\\(?:times|cdot|div|pi|sqrt|pm)\b|!\ ?[=\d])"
    r"|[-+*/][\w\\(]|[a-zA-Z](?![a-zA-Z])"
)
#: Markdown's bold and code, quotation marks, and one star on either side: no operators.
_MARKS = re.compile(
    r"(?<![\w)\]}])\*\*|\*\*(?![\w(\\])|(?<!\w)__(?=\S)|(?<=\S)__(?!\w)|[`\"\u201c\u201d]"
)
_STARRED = re.compile(r"(?<![\w*)\]}])\*(?! )([^*\n]{1,80})(?<! )\*(?![\w*(])")
#: Two letters and more that stand alone.
_WORD = re.compile(r"(?<![^\s(])[a-z]{2,}(?![^\s).,])")
#: Words that lead to a value and would be letters of a formula.
_LEAD = re.compile(r"\A(?:so|thus|hence|then|therefore|it is|it's|is)\b[,:]? +", re.IGNORECASE)
#: A text of digits: a date, a score, a telephone number.
_FIGURES = re.compile(r"[\d\s().,/%$+-]*\d[\d\s().,/%$+-]*")
_CHANGED = re.compile(_CHANGES, re.IGNORECASE)
#: Behind an answer, these deny it.
_TAKEN_BACK = re.compile(
    r"[\s$.,;:!?*)\]}…-]{0,40}+(?:(?:no|nope|wait)(?:\s*+[,.!?…]|\s*+\Z)"
    r"|(?:(?:but|which|that|this|it)\s+){0,2}(?:is|was|seems)\s(?:wrong|incorrect|false|not)\b)",
    re.IGNORECASE,
)
_DENIALS = (" not", "n't", "never", "cannot be", "minus")
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
            boxed = last_boxed(text)
            return None if boxed is None else unstyled(boxed)
        case Extract.MARKED:
            return last_marked(text)
        case Extract.TAGGED:
            return last_tagged(text)
        case Extract.FENCED:
            return last_fenced(text)


def last_boxed(text: str) -> str | None:
    """The content of the last outermost \\boxed{...} that is closed.

    With what stands around a box that is a part of a formula, as in -\\boxed{7}: it is not 7.
    """
    box = last_box(text)
    return None if box is None else box.content


class Box(NamedTuple):
    """What is boxed or tagged as the answer, and where it begins and ends."""

    content: str
    start: int
    end: int


def last_box(text: str) -> Box | None:
    """The last outermost \\boxed{...} that is closed, as `last_boxed` reads it."""
    if "boxed" not in text and "fbox" not in text:
        return None
    found = deque(boxes(text), maxlen=1)
    if not found:
        return None
    content, start, end = found[0]
    return Box(_with_operators(text, start, end, content), start, end)


def boxes(text: str) -> Iterator[Box]:
    """Each outermost \\boxed{...} up to one that is not closed: what follows is inside of it."""
    place = 0
    while (start := _BOX.search(text, place)) is not None:
        end = _closing(text, start.end())
        if end is None:
            return
        yield Box(text[start.end() : end].strip(), start.start(), end + 1)
        place = end


def _with_operators(text: str, start: int, end: int, content: str) -> str:
    """The content of a box, and the operators that make it a part of something else."""
    before = _OPERATOR_BEFORE.search(text[max(0, start - _MAX_AROUND) : start])
    after = _OPERATOR_AFTER.match(text[end : end + _MAX_AROUND])
    if before is None and after is None:
        return content
    left, right = before[0] if before else "", after[0] if after else ""
    return f"{left}({content}){right}".strip()


def _closing(text: str, start: int) -> int | None:
    """Where the brace that was opened before `start` is closed."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    return None


def last_marked(text: str) -> str | None:
    """What follows the last #### on its line."""
    found = marked_answers(text)
    return found[-1].strip() if found else None


def marked_answers(text: str) -> list[str]:
    """What follows each #### on its line."""
    return _MARKED.findall(text) if "####" in text else []


def last_tagged(text: str) -> str | None:
    """What stands between the last <answer> and </answer> that belong together."""
    tag = last_tag(text)
    return None if tag is None else tag.content


def last_tag(text: str) -> Box | None:
    """As `last_tagged`, with the place."""
    found = deque(tags(text), maxlen=1) if "<" in text else None
    return found[0] if found else None


def tags(text: str) -> Iterator[Box]:
    """Each <answer>...</answer>."""
    start: re.Match[str] | None = None
    for tag in _ANSWER.finditer(text):
        if not tag[1]:
            start = start or tag
        elif start is not None:
            yield Box(text[start.end() : tag.start()].strip(), start.start(), tag.end())
            start = None


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
    """
    text = text[-_MAX_SEARCHED:]
    box = last_box(text)
    if box is not None:
        return None if _is_denied(text, box) else box.content
    tag = last_tag(text)
    if tag is not None:
        return None if _is_denied(text, tag) else tag.content
    marked = last_marked(text)
    if marked is not None:
        return marked
    text = _without_emphasis(text)
    bare = _LEAD.sub("", text.strip(), count=1)
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
    """Whether the words beside an answer say that it is none."""
    before = text[max(0, box.start - _MAX_AROUND) : box.start].rstrip("\n $\\([{*:")
    if before[-1:] in "tTrReEsS" and f" {before}".lower().endswith(_DENIALS):
        return True
    return len(text) > box.end + 2 and _TAKEN_BACK.match(text, box.end) is not None


def last_match(pattern: re.Pattern[str], text: str, start: int = 0) -> re.Match[str] | None:
    """The last place where the pattern is in the text from `start` on."""
    last = deque(pattern.finditer(text, start), maxlen=1)
    return last[0] if last else None


def _claimed(text: str) -> str | None:
    """What the last "the answer is" says, if that is a value."""
    found = last_match(_CLAIM, text)
    if found is None or found.end() < len(text.rstrip()):
        return None
    said = found[1].strip().rstrip(".").strip()
    if len(said) > _MAX_SHORT:
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
    value = value_of(plain(text))
    if isinstance(value, Named):
        value = value.value
    if isinstance(value, Formula):
        return not (set(_WORD.findall(text.lower())) - FORMULA_NAMES)
    return not isinstance(value, Words) or _FIGURES.fullmatch(value.text) is not None


def _last_standing(text: str) -> str | None:
    """The last formula between delimiters, or number outside of them, that is no part of more."""
    maths = last_match(_MATHS, text)
    after = maths.end() if maths is not None else 0
    number = last_quantity(text, after)
    if number is not None or maths is None:
        return number
    said = next(group for group in maths.groups() if group is not None)
    return None if _is_a_part(text, maths) else said.strip()


def _is_a_part(text: str, maths: re.Match[str]) -> bool:
    before = text[max(0, maths.start() - _MAX_AROUND) : maths.start()]
    return _SEVERAL.search(before) is not None or _CHANGED.search(before) is not None


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
    return said if quantity_of(plain(said)) is not None else None
