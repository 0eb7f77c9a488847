"""Marked answers of a text: in \\boxed{}, or between <answer> and </answer>."""

import re
import sys
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from assay_shared.answers.amounts import changes_box, numeral_behind

_ANSWER = re.compile(r"<(/?)answer>", re.IGNORECASE)
#: \\boxed{7}; a number may stand without braces.
_BOX = re.compile(r"\\(?:boxed|fbox)(?:\s?\{|\s?(-?\d++(?:[.,]\d++)*+(?:/\d++)?+)(?![\w\\{^/*+-]))")
_MAX_AROUND = 24
_MAX_STRUCK = 400
_BRACE = re.compile(r"[{}]")
#: Signs of a larger formula around a box: a sign or factor before, a power, factor or letter after.
_SIGNS = "-+*/−–×·÷"
_OPERATOR_BEFORE = re.compile(
    rf"(?:(?:(?<![A-Za-z])[A-Za-z]|[\d}}])\ ?[{_SIGNS}^<>]\ ?|[-−–](?:\\[,;:!]|~)?|[√∛±]|\d\.?"
    r"|(?<![A-Za-z])[A-Za-z]\(|[_^]\{"
    r"|\\(?:neq?|leq?|geq?|lt|gt|times|cdot|div|sqrt|pm|log|ln|sin|cos|tan|not)\b[\ {]?"
    r"|\\(?:[dt]?frac\{(?:[^{}]{0,16}\}\{)?|[dt]?binom\{|(?:overline|bar)\{|[lc]floor\ ?|lceil\ ?)"
    r")\Z"
)
_OPERATOR_AFTER = re.compile(
    r"\ ?(?:\\?%|°|\^\{?\\circ\}?"
    rf")|\ [{_SIGNS}x]\ [\d\\(]"
    r"|\ ?(?:\^|\\(?:times|cdot|div|pi|sqrt|pm|[dt]?frac)\b|!\ ?[=\d]|\}+\ ?\^)"
    r"|\ [<>≤≥]\ [\w\\(]|\ (?:times|plus|minus)\ [\d\\(]|'s\b"
    rf"|[{_SIGNS}][\w\\(]|[²³⁰¹⁴-⁹]|[a-zA-Z](?![a-zA-Z])"
)
#: Digits next to the digits in a box, and other values next to it: \boxed{7}0, \boxed{7},000, 8 or
#: \boxed{7}, (\boxed{7}, 8). Then no single value is the answer.
_DIGITS_BEFORE = re.compile(r"[\d½⅓⅔¼¾⅛][.,:]?\Z")
_DIGITS_AFTER = re.compile(
    r"[.,:]?\d++|[_½⅓⅔¼¾⅛₀-₉]\w?|(?:\\[,;:! ]|\{,\}|\ )\d{3}(?!\d)|\\!\d++|\\overline\{"
)
_NUMERAL = r"-?\d++(?:[.,/]\d++)*+"
_OR = r"(?:or|\\lor|∨|\\text\{\s?or\s?\})"
_VALUE_BEFORE = re.compile(
    rf"(?<![\w.,]){_NUMERAL}(?:[\s$)]|\\[,; ])*\s?{_OR}[\s$(]*(?:[A-Za-z]\s?=[\s$]*)?\Z"
    rf"|[(\[{{\n$](?:\s?{_NUMERAL}\s?,)+\s?\Z"
)
_VALUE_AFTER = re.compile(
    rf"\s?(?:,\s?{_NUMERAL})+\s?(?:\\?[)\]}}]|[\s$*.]*\Z)"
    r"|[\s$)]*(?:\\lor|∨|\\text\{\s?or\s?\})\s?-?\d++"
)


#: The formula around a box reaches from one of these to one of those; words end it too.
_MAX_FORMULA = 120
_ARROW = (
    r"\\(?:implies|(?:[Ll]ong)?[Rr]ightarrow|to|iff|therefore|approx|equiv"
    r"|in|q?quad|[pb]?mod)(?![A-Za-z])"
)
_LETTERS = r"(?<![A-Za-z\\])[A-Za-z]{2}"
_OPENS = re.compile(rf"\$|\\[(\[]|=|&|\\\\|(?<!\\)[,;]|\\text\{{\s?(?:and|or)\s?\}}|{_ARROW}")
_CLOSES = re.compile(
    rf"\$|\\[)\]]|=|&|\\\\|{_ARROW}|\\f?box|\\end\b|(?<!\\)[,;\n]|[.!?:](?=\s|\Z)|{_LETTERS}"
)
#: Parts of a formula that change no value: spaces, braces, sizes, texts, units of a letter.
_IDLE = re.compile(
    r"\\[,;:! ]|[\s~{}.$*]|\\\$|\\(?:left|right|displaystyle|bigg?|Bigg?)(?![A-Za-z])"
    r"|\\(?:text|textbf|textrm|mathrm|mathbf|mbox|hspace|tag)\s?\{[^{}]*\}(?:\^\{?[23]\}?)?"
    r"|(?<![A-Za-z\\])[mgshLKJNWVACFT](?![A-Za-z])(?:\^\{?[23]\}?)?"
)
_WORDS_IN = re.compile(_LETTERS)
_WORKS = re.compile(
    r"[\d%+\-−*/^_<>≤≥|√×·÷]|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])|\\(?:[dt]?frac|sqrt|sin|cos|tan|log|ln"
    r"|exp|pi|cdot|times|div|leq?|geq?|lt|gt|neq?|pm|mp|neg|lnot|[dt]?binom|theta|alpha|beta)\b"
)


#: Text struck through.
_STRUCK = re.compile(
    r"(?<![\w$})~])~~(?=[^\s~])[^~\n]{1,400}~~|<(s|del|strike)>[^<\n]{0,400}</\1>", re.IGNORECASE
)
_CANCEL = re.compile(r"\\(?:[bx]?cancel|sout|st|hcancel)\s?\{")


def without_struck(text: str) -> str:
    """Return the text without its struck parts: ~~7~~, <del>7</del>, \\cancel{7}."""
    if "~~" in text or "</" in text:
        text = _STRUCK.sub(" ", text)
    if "\\" not in text or _CANCEL.search(text) is None:
        return text
    kept, place = [], 0
    for command in _CANCEL.finditer(text):
        end = _closing(text, command.end(), _MAX_STRUCK) if command.start() >= place else None
        if end is not None:
            kept.append(text[place : command.start()])
            place = end + 1
    return " ".join([*kept, text[place:]])


class Box(NamedTuple):
    """A boxed or tagged answer, with its start and end."""

    content: str
    start: int
    end: int


def last_box(text: str) -> Box | None:
    """Return the last closed outermost \\boxed{...}, with the operators around it, or None."""
    if "boxed" not in text and "fbox" not in text:
        return None
    found = deque(boxes(text), maxlen=1)
    if not found:
        return None
    content, start, end = found[0]
    return Box(_with_operators(text, start, end, content), start, end)


def boxes(text: str) -> Iterator[Box]:
    """Yield each outermost \\boxed{...} up to an unclosed box: any later text is inside of it."""
    place = 0
    while (start := _BOX.search(text, place)) is not None:
        if start[1]:
            yield Box(start[1], start.start(), start.end())
            place = start.end()
            continue
        end = _closing(text, start.end())
        if end is None:
            return
        yield Box(text[start.end() : end].strip(), start.start(), end + 1)
        place = end


def _with_operators(text: str, start: int, end: int, content: str) -> str:
    """Return the content of a box, with the operators and words around it that change it."""
    lead, rest = text[max(0, start - _MAX_AROUND) : start], text[end : end + _MAX_AROUND]
    larger = _values_around(lead if start > _MAX_AROUND else f"\n{lead}", content, rest)
    if larger is None:
        larger = _formula_around(text, start, end, content)
    if larger is not None:
        return larger
    before, after = _OPERATOR_BEFORE.search(lead), _OPERATOR_AFTER.match(rest)
    left = before[0] if before else changes_box(text, start)
    right = after[0] if after else numeral_behind(text, end)
    if not left and not after:
        return content + right
    return f"{left}({content}){right}".strip()


def _formula_around(text: str, start: int, end: int, content: str) -> str | None:
    """Return the formula in delimiters, or behind an equals sign, with more in it than the box."""
    before = text[max(0, start - _MAX_FORMULA) : start]
    opened = deque(_OPENS.finditer(before), maxlen=1)
    if not opened:
        return None
    left = before[opened[0].end() :]
    closed = _CLOSES.search(text, end, end + _MAX_FORMULA)
    right = text[end : closed.start() if closed is not None else end + _MAX_FORMULA]
    if _WORDS_IN.search(left) is not None:
        return None
    if _WORKS.search(_IDLE.sub("", left)) is None and _WORKS.search(_IDLE.sub("", right)) is None:
        return None
    return f"{left}({content}){right}".strip()


def _values_around(left: str, content: str, right: str) -> str | None:
    """Return the content of a box with the values next to it, or None if there are none."""
    is_number = content[-1:].isdigit()
    before = _VALUE_BEFORE.search(left) or (
        _DIGITS_BEFORE.search(left) if content[:1].isdigit() or content[:1] == "." else None
    )
    after = (_DIGITS_AFTER.match(right) if is_number else None) or _VALUE_AFTER.match(right)
    if before is None and after is None:
        return None
    return f"{before[0] if before else ''} {content} {after[0] if after else ''}".strip()


def _closing(text: str, start: int, limit: int = sys.maxsize) -> int | None:
    """Return the place of the closing brace for a brace opened before `start`, within `limit`."""
    depth = 1
    for brace in _BRACE.finditer(text, start, min(len(text), start + limit)):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.start()
    return None


def last_tag(text: str) -> Box | None:
    """Return the last <answer>...</answer>, or None."""
    found = deque(tags(text), maxlen=1) if "<" in text else None
    return found[0] if found else None


def tags(text: str) -> Iterator[Box]:
    """Yield each <answer>...</answer>."""
    start: re.Match[str] | None = None
    for tag in _ANSWER.finditer(text):
        if not tag[1]:
            start = start or tag
        elif start is not None:
            yield Box(text[start.end() : tag.start()].strip(), start.start(), tag.end())
            start = None
