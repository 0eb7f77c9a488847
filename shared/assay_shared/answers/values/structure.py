"""Reading a plain text as a number, list, tuple or interval, matrix, relation, or words."""

import itertools
import re
from dataclasses import dataclass
from functools import lru_cache

from assay_shared.answers.conditions import (
    all_but,
    beyond,
    difference,
    intersection,
    is_statement,
    point,
    together,
    united,
)
from assay_shared.answers.formulas.formula import is_formula
from assay_shared.answers.formulas.latex import CLOSE, DOLLAR, OPEN, words_of
from assay_shared.answers.values.dates import iso_date
from assay_shared.answers.values.matrices import matrix_of, rows_of
from assay_shared.answers.values.quantity import Quantity, quantity_of
from assay_shared.answers.values.sets import braced, numeral_of, set_of_reals
from assay_shared.answers.values.units import parse_unit
from assay_shared.answers.values.values import (
    Formula,
    Measured,
    Named,
    Ordered,
    Relation,
    Several,
    Value,
    Words,
)

_MAX_LENGTH = 2000
_MAX_DEPTH = 8

_TOKEN = re.compile(
    r"\\[{}]|\\begin\{|\\end\{|\\[A-Za-z]++|\\.|"
    r"[(){}\[\],;=<>]|(?<![A-Za-z])(?:and|or)(?![A-Za-z])"
)
_OPENS = {"(": ")]", "[": ")]", "{": "}", "\\{": "\\}", "\\langle": ("\\rangle",), "\\begin{": ""}
_BRACKETS = (
    *(("\\{", ("\\}",)), ("{", ("}",)), ("\\langle", ("\\rangle",))),
    *(("(", (")", "]")), ("[", (")", "]"))),
)
_CLOSES = frozenset((")", "]", "}", "\\}", "\\rangle"))
#: Tokens between values, the loosest first.
_JOINS = (("or", ("or", "\\vee")), (",", (";",)), ("and", (",", "and", "\\wedge")))
_SEPARATORS = frozenset(token for _, tokens in _JOINS for token in tokens)
_LOGICAL = frozenset(("\\vee", "\\wedge"))
_OF_SEVERAL = _SEPARATORS | {"\\in", "\\cup", "\\cap", "\\setminus", "\\pm"}
_RELATIONS = {"<": "<", ">": ">", "\\le": "<=", "\\ge": ">=", "\\ne": "!="}
_COMPARING = frozenset(("=", *_RELATIONS))
#: Dates, scores, telephone numbers and ranges are texts: nobody writes "2024-03-05" or "3-2" for a
#: number still to compute.
_FIGURE = rf"[$€£{DOLLAR}]?\d++(?:[.,]\d++)*+%?"
_FIGURES = re.compile(rf"[-+]?\s?\(?{_FIGURE}\)?(?:\s?-\s?{_FIGURE})++|\d++(?:\s?/\s?\d++){{2,}}+")
_NO_NAMES = frozenset(("not", "is", "or", "and", "\\not", "\\neg"))
_ENDS_OF_FIGURES = frozenset("0123456789%")
_NAME = re.compile(
    r"(?:\\?[A-Za-z]{1,12})(?:_\{?\w{1,8}\}?)?'*(?:\([A-Za-z](?:,\s?[A-Za-z]){0,3}\))?"
    r"|(?:[A-Za-z]+ ){0,4}[A-Za-z]+"
)
_ANGLE = re.compile(r"m?\s?\\(?:measured)?angle\s?(?=[A-Z\d])")
#: |x|, in an inequality with a number.
_ABSOLUTE = re.compile(r"\|\s?([A-Za-z])\s?\|")
#: An exclamation mark after a word is not a factorial.
_EXCLAIMED = re.compile(r"(?:[A-Z][a-z]{2,}|[Yy]es|YES|[Nn]o|NO|true|false)!+")
#: Possible beginnings of the unit after a formula: upright letters, or a word.
_UNIT_START = re.compile(rf"(?:\\frac\s?\{{\s?)?+{OPEN}|(?<=[ \d)}}]) ?(?=[A-Za-z]{{2}})(?<!\\)")
_MAX_UNIT_STARTS = 4
#: A text with one of these is words; so is a text of several letters alone.
_RUN = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{4,}|(?<=[\uE000 ])[A-Za-z]{3,}")
#: Names in formulas; they are not words.
FORMULA_NAMES = frozenset(
    [
        *("sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp", "sqrt", "pi"),
        *("asin", "acos", "atan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh"),
        *("max", "min", "gcd", "lcm", "mod", "det", "deg", "and", "infty", "theta", "alpha"),
    ]
)
_ONLY_LETTERS = re.compile(r"[A-Za-z]{2,}")


@dataclass(frozen=True)
class _Mark:
    """A token outside all brackets, with its place."""

    token: str
    start: int
    end: int


@lru_cache(maxsize=2048)
def value_of(text: str, depth: int = 0) -> Value:
    """Return the value of a plain text."""
    text = text.strip()
    number = quantity_of(text)
    if number is not None:
        return number
    if len(text) > _MAX_LENGTH or depth > _MAX_DEPTH:
        return Words(text)
    return (
        _figures(text)
        or numeral_of(text)
        or set_of_reals(text, lambda part: value_of(part, depth + 1))
        or _structured(text, depth)
    )


def _structured(text: str, depth: int) -> Value:
    """Return the value of a text by its relations, separators and brackets."""
    marks = _outer_marks(text)
    if marks is None:
        return Words(text)
    tokens = {mark.token for mark in marks}
    if tokens & _COMPARING:
        if not tokens & _SEPARATORS:
            return _relation(text, marks, depth)
        if (named := _named_number(text)) is not None:
            return named
    matrix = matrix_of(text, lambda cell: value_of(cell, depth + 1))
    if matrix is not None:
        return matrix
    if not tokens & _OF_SEVERAL and (measured := _measured(text)) is not None:
        return measured
    if _is_words(text):
        return Words(text)
    if tokens & _SEPARATORS:
        return _joined(text, marks, tokens, depth)
    return _one_value(text, marks, tokens, depth)


def _figures(text: str) -> Words | None:
    """Return a date in its standard form, or another text of digits not to compute; else None."""
    if text[:1] == OPEN and text[-1:] == CLOSE:
        text = text[1:-1].strip()
    if text[-1:] not in _ENDS_OF_FIGURES:
        return None
    date = iso_date(text)
    if date is None and not _FIGURES.fullmatch(text):
        return None
    return Words(date or text)


def _one_value(text: str, marks: list[_Mark], tokens: set[str], depth: int) -> Value:
    """Return the value of a text without separators or relations outside its brackets."""
    if "\\in" in tokens:
        return _member(text, marks, depth)
    if "\\setminus" in tokens:
        parts = [value_of(part, depth + 1) for part in _split(text, marks, ("\\setminus",))]
        is_sure = tokens.isdisjoint(("\\cup", "\\cap"))
        return (difference(parts) if is_sure else None) or Formula(text)
    if "\\cup" in tokens:
        return united([value_of(part, depth + 1) for part in _split(text, marks, ("\\cup",))])
    if "\\cap" in tokens:
        parts = [value_of(part, depth + 1) for part in _split(text, marks, ("\\cap",))]
        return intersection(parts) or Formula(text)
    if "\\pm" in tokens:
        return _plus_minus(text, marks, depth)
    return _bracketed(text, depth)


def _measured(text: str) -> Measured | None:
    """Return the formula and the unit of a text ending with a unit; None for any other text."""
    for found in itertools.islice(_UNIT_START.finditer(text, 1), _MAX_UNIT_STARTS):
        formula, tail = text[: found.start()].strip(), text[found.start() :].strip()
        unit = parse_unit(f" {tail}")
        if unit is None or not unit.is_sure or not (unit.is_known or OPEN in found.group()):
            continue
        if not formula or unit.is_percent or _is_words(formula):
            continue
        if is_formula(words_of(formula)):
            return Measured(words_of(formula), unit, text)
    return None


def _outer_marks(text: str) -> list[_Mark] | None:
    """Return separators, relations and signs outside brackets; None if brackets do not match."""
    marks: list[_Mark] = []
    stack: list[str] = []
    for found in _TOKEN.finditer(text):
        token = found.group()
        if token in _OPENS:
            stack.append(token)
        elif token == "\\end{":
            if not stack or stack.pop() != "\\begin{":
                return None
            stack.append("{")
        elif token in _CLOSES:
            if not stack:
                return None
            if stack[-1] == "\\begin{" and token == "}":
                continue
            if token not in _OPENS[stack.pop()]:
                return None
        elif not stack:
            marks.append(_Mark(token, found.start(), found.end()))
    return None if stack else marks


def _split(text: str, marks: list[_Mark], by: tuple[str, ...]) -> list[str]:
    parts, place = [], 0
    for mark in marks:
        if mark.token in by:
            parts.append(text[place : mark.start].strip(f" {OPEN}{CLOSE}"))
            place = mark.end
    parts.append(text[place:].strip(f" {OPEN}{CLOSE}"))
    return [part for part in parts if part]


def _joined(text: str, marks: list[_Mark], tokens: set[str], depth: int) -> Value:
    """Return the value of a text with separators, split at the loosest."""
    join, separators = next(one for one in _JOINS if tokens.intersection(one[1]))
    if join == "and" and tokens.isdisjoint(("and", "\\wedge")):
        join = ","
    values = [value_of(part, depth + 1) for part in _split(text, marks, separators)]
    if tokens & _LOGICAL and not all(map(is_statement, values)):
        return Formula(text)  # of propositions: p and q are not values
    return together(values, join) if values else Words(text)


def _relation(text: str, marks: list[_Mark], depth: int) -> Value:
    """Return a name's value, an interval of a variable, or a relation."""
    used = [mark for mark in marks if mark.token == "=" or mark.token in _RELATIONS]
    sides = [side.strip() for side in _split_all(text, used)]
    if not all(sides[1:]):
        return Words(text)
    if any(mark.token == "\\ne" for mark in used):
        return _unequal(text, sides, depth)
    if all(mark.token == "=" for mark in used):
        return _equation(text, sides, depth)
    relations = [_RELATIONS.get(mark.token, "=") for mark in used]
    if not sides[0] or "=" in relations or _is_words(text):
        return Words(text)
    if all(relation.startswith(">") for relation in relations):
        sides.reverse()
        relations = [relation.replace(">", "<") for relation in reversed(relations)]
    if not all(relation.startswith("<") for relation in relations):
        return Words(text)
    return _interval(sides, relations, depth) or Relation(tuple(sides), tuple(relations))


def _unequal(text: str, sides: list[str], depth: int) -> Value:
    """Return an inequality's value: x != 3 is all numbers below and above 3."""
    if len(sides) != 2 or not sides[0] or _is_words(text):
        return Words(text)
    for side, bound in (sides, sides[::-1]):
        others, name = all_but([value_of(bound, depth + 1)]), _name(side)
        if name is not None and others is not None:
            return Named(frozenset((name,)), others, is_member=True)
    return Relation(tuple(sides), ("!=",))


def _split_all(text: str, marks: list[_Mark]) -> list[str]:
    starts = [0, *(mark.end for mark in marks)]
    ends = [*(mark.start for mark in marks), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _equation(text: str, sides: list[str], depth: int) -> Value:
    if len(sides) == 2 and sides[0].startswith("("):
        point = _point(sides[0], sides[1], depth)
        if point is not None:
            return point
    names = [_name(side) for side in sides[:-1]]
    if all(name is not None for name in names):
        # "We get x" names x.
        known = {name for side in sides[:-1] for name in (_name(side), _name(side.split()[-1]))}
        return Named(frozenset(filter(None, known)), value_of(sides[-1], depth + 1))
    if len(sides) == 2 and all(sides) and not _is_words(text):
        return Relation(tuple(sides), ("=",))
    return Words(text)


def _named_number(text: str) -> Named | None:
    """Return a named number: x = 1,600 has no separators; None for any other text."""
    side, _, rest = text.partition("=")
    name, number = _name(side.strip()), quantity_of(rest.strip())
    return None if name is None or number is None else Named(frozenset((name,)), number)


def _point(left: str, right: str, depth: int) -> Value | None:
    """Return the named values of (x, y) = (1, 2); None for any other equation."""
    values = value_of(right, depth + 1)
    names = [_name(side) for side in left[1:-1].split(",")] if left.endswith(")") else []
    if not isinstance(values, Ordered) or (values.opened, values.closed) != ("(", ")"):
        return None
    if len(values.items) != len(names) or None in names:
        return None
    named = zip(names, values.items, strict=True)
    return point([Named(frozenset((str(name),)), value) for name, value in named])


def _name(side: str) -> str | None:
    """Return the side of an equation without spaces if it is a name, else None."""
    name = _ANGLE.sub("", words_of(side).strip(), count=1)
    if not _NAME.fullmatch(name) or _NO_NAMES.intersection(name.lower().split()):
        return None
    return name.replace(" ", "").replace("{", "").replace("}", "")


def _interval(sides: list[str], relations: list[str], depth: int) -> Value | None:
    """Return the interval of a variable's inequalities: 0 < x <= 1 is (0, 1]; else None."""
    if len(sides) == 2:
        if (within := _absolute(sides, relations, depth)) is not None:
            return within
        if _name(sides[0]):
            sides, relations = ["-\\infty", *sides], ["<", *relations]
        elif _name(sides[1]):
            sides, relations = [*sides, "\\infty"], [*relations, "<"]
    if len(sides) != 3 or (name := _name(sides[1])) is None:
        return None
    opened = "[" if relations[0] == "<=" else "("
    closed = "]" if relations[1] == "<=" else ")"
    ends = (value_of(sides[0], depth + 1), value_of(sides[2], depth + 1))
    return Named(frozenset((name,)), Ordered(opened, ends, closed), is_member=True)


def _absolute(sides: list[str], relations: list[str], depth: int) -> Value | None:
    """Return the values of x with |x| < 3 or 3 < |x|; None for other inequalities."""
    for at in (0, 1):
        found, bound = _ABSOLUTE.fullmatch(sides[at]), value_of(sides[1 - at], depth + 1)
        if found is not None and isinstance(bound, Quantity) and bound.unit is None:
            values = beyond(bound.value, relations[0] == "<=", is_within=at == 0)
            return Named(frozenset((found[1],)), values, is_member=True) if values else None
    return None


def _member(text: str, marks: list[_Mark], depth: int) -> Value:
    """Return the named set of x \\in [0, 1]."""
    sides = _split(text, marks, ("\\in",))
    if len(sides) == 2 and (name := _name(sides[0])) is not None:
        return Named(frozenset((name,)), value_of(sides[1], depth + 1), is_member=True)
    return Words(text)


def _plus_minus(text: str, marks: list[_Mark], depth: int) -> Value:
    """Return both values of a text with a plus-minus sign."""
    signs = [mark for mark in marks if mark.token == "\\pm"]
    if len(signs) > 1:
        return Words(text)
    start, end = text[: signs[0].start], text[signs[0].end :]
    both = (f"{start} + {end}" if start.strip() else end, f"{start} - {end}")
    values = (Formula(t) if _FIGURES.fullmatch(t) else value_of(t, depth + 1) for t in both)
    return Several(tuple(values))


def _bracketed(text: str, depth: int) -> Value:
    opened, closed, inner = _unbracketed(text)
    if not opened:
        return Words(text) if _is_words(text) else Formula(text)
    marks = _outer_marks(inner)
    if marks is None:  # the brackets are not a pair: (x+1)(x-1)
        return Formula(text)
    parts = _split(inner, marks, (",", ";"))
    if opened in ("\\{", "{"):
        return braced(parts, lambda part: value_of(part, depth + 1), is_plain=opened == "{")
    if len(parts) == 1 and (opened, closed) == ("(", ")"):
        return value_of(parts[0], depth + 1)
    items = tuple(value_of(part, depth + 1) for part in parts)
    return rows_of(opened, items, closed) or Ordered(opened, items, closed)


def _unbracketed(text: str) -> tuple[str, str, str]:
    """Return the brackets around a text (empty if there are none) and the text between them."""
    for opened, ends in _BRACKETS:
        if text.startswith(opened):
            for closed in ends:
                if text.endswith(closed):
                    return opened, closed, text[len(opened) : -len(closed)]
    return "", "", text


def _is_words(text: str) -> bool:
    """Return True if a text is in a language, not a formula with its letters as variables."""
    letters = words_of(text).replace(" ", "")
    if _ONLY_LETTERS.fullmatch(letters):
        return letters != "pi"
    if letters.endswith("!") and _EXCLAIMED.fullmatch(letters):
        return True
    return any(found.group().lower() not in FORMULA_NAMES for found in _RUN.finditer(text))
