"""Equality of an answer and a reference: decided directly if possible, else by a proof."""

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from assay_shared.answers.conditions import is_indexed
from assay_shared.answers.formulas.formula import equal_formulas, is_formula
from assay_shared.answers.formulas.latex import MAX_LENGTH, OPEN, plain, words_of
from assay_shared.answers.values.dates import same_date
from assay_shared.answers.values.quantity import Quantity, quantity_of
from assay_shared.answers.values.structure import value_of
from assay_shared.answers.values.units import Unit
from assay_shared.answers.values.values import (
    Assigned,
    Formula,
    Matrix,
    Measured,
    Named,
    Ordered,
    Relation,
    Several,
    Value,
    Words,
)
from assay_shared.answers.words import same_words

_MAX_ITEMS = 64
_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")
_SPACE_OF_WORDS = re.compile(r"(?<!\w)\s+|\s+(?!\w)")
#: The name of a variable, not of a function.
_VARIABLE = re.compile(r"[A-Za-z](?:_\w)?|\\[a-z]{2,8}")
#: A number and a short unit that begins as units with prefixes do: 5 Mpc.
_MEASURE = re.compile(r"[-+]?[\d.,/]+\s?([mMpP])[a-z]{1,4}")
_MAX_MEASURE = 40
#: 2 and 1/3: a mixed number if the reference is a number, else a list of two numbers.
_MIXED = re.compile(r"(-?\d{1,12}) and (?=\d|\\frac)")
#: The label of an option, and how an answer may name it.
_MAX_LABEL = 8
_LABEL = re.compile(r"\(([A-Z])\)")
_LABELLED = re.compile(
    r"(?:(?:the )?(?:correct )?(?:option|choice|answer)(?: is)?:? )?\(?([A-Za-z])\)?[.:]?",
    re.IGNORECASE,
)
_DEGREES, _RADIANS = (("angle", 1),), (("radians", 1),)


class Prove(Protocol):
    """A proof of the equality of two formulas, or of their equality up to a rational factor."""

    def __call__(self, answer: str, reference: str, but_for_a_factor: bool = False) -> bool: ...


class NeedsProof(Exception):
    """Two formulas are written differently: only sympy can compare them, in a separate process."""


def settled(answer: str, reference: str) -> bool | None:
    """Return True if both are surely equal, False if surely unequal, None if words differ.

    Raises:
        NeedsProof: `equal_by_proof` may find them equal.
    """
    return _compared(answer, reference, _unproven)


def equal_by_proof(answer: str, reference: str) -> bool:
    """Return True if both are equal, comparing formulas by value. Slow, and without a limit."""
    return _compared(answer, reference, equal_formulas) is True


def _unproven(answer: str, reference: str, but_for_a_factor: bool = False) -> bool:
    raise NeedsProof


def _compared(answer: str, reference: str, prove: Prove) -> bool | None:
    if not answer.strip() or not reference.strip():
        return None
    if answer == reference:
        return True
    if max(len(answer), len(reference)) > MAX_LENGTH:
        return True if same_words(answer, reference) else None
    one, other = plain(answer), plain(reference)
    given, expected = value_of(one), value_of(other)
    if isinstance(expected, Quantity):
        if " and " in one and not isinstance(given, Quantity):
            given = _mixed(one) or given
        if isinstance(given, Quantity):
            return given.equals(expected)
    if len(other) <= _MAX_LABEL and "(" in other and _same_label(one, other):
        return True
    if (OPEN in one or OPEN in other) and _packed_words(one) == _packed_words(other):
        return True
    return _same(_only(given), _only(expected), prove)


def _mixed(text: str) -> Quantity | None:
    """Return the mixed number of a text such as "2 and 1/3"; None for any other text."""
    found = _MIXED.match(text)
    part = quantity_of(text[found.end() :]) if found is not None else None
    if found is None or part is None or not 0 < part.value < 1:
        return None
    return quantity_of(f"{found[1]} {text[found.end() :]}")


def _same_label(answer: str, reference: str) -> bool:
    """Return True if the reference is an option's label, (B), and the answer names this label."""
    label = _LABEL.fullmatch(words_of(reference).strip())
    named = _LABELLED.fullmatch(words_of(answer).strip()) if label is not None else None
    return label is not None and named is not None and named[1].upper() == label[1]


def _only(value: Value) -> Value:
    """Return the only element of a set such as {5}; return {{5}} and other values unchanged."""
    if isinstance(value, Named):
        only = _only(value.value)
        return value if only is value.value else replace(value, value=only)
    if isinstance(value, Several) and value.joined_by == "{" and len(value.items) == 1:
        item = value.items[0]
        is_set = isinstance(item, Several) or item == Formula("\\emptyset")
        return value if is_set else item
    return value


def _same(one: Value, other: Value, prove: Prove) -> bool | None:
    """Compare two values by their kinds. Some kinds on either side decide the comparison."""
    if one == other:
        return True
    if isinstance(one, Quantity) and isinstance(other, Quantity):
        return one.equals(other)
    for kind, compared in _LOOKED_INTO:
        if isinstance(one, kind) or isinstance(other, kind):
            return compared(one, other, prove)
    for kind, same in _BY_KIND:
        if isinstance(one, kind) and isinstance(other, kind):
            return same(one, other, prove)
    return _same_formula(one, other, prove)


def _same_formula(one: Value, other: Value, prove: Prove) -> bool | None:
    first, second = _formula(one), _formula(other)
    if first is None or second is None:
        return None
    if _packed(first) == _packed(second):
        return True
    if not is_formula(first) or not is_formula(second):
        return None
    return prove(first, second) or None


def _same_named(one: Value, other: Value, prove: Prove) -> bool | None:
    """Compare named values: x = 5 equals 5, but not y = 5. A relation may be the same equation."""
    if isinstance(one, Named) and isinstance(other, Named) and one.names & other.names:
        is_other = one.is_member != other.is_member and isinstance(other.value, Formula)
        return None if is_other else _same(one.value, other.value, prove)
    if isinstance(one, Named | Relation) and isinstance(other, Named | Relation):
        first, second = _difference(one), _difference(other)
        return _same_equation(first, second, prove) if first and second else None
    if isinstance(one, Named):
        return _same(one.value, other, prove)
    return _same(one, other.value, prove) if isinstance(other, Named) else None


def _same_measured(one: Value, other: Value, prove: Prove) -> bool | None:
    """Compare formulas with units. Either side may omit its unit; known units are converted."""
    texts = [_packed(it.text) for it in (one, other) if isinstance(it, Measured | Formula)]
    if len(texts) == 2 and texts[0] == texts[1]:
        return True
    first, second = _formula_and_unit(one), _formula_and_unit(other)
    scales = _scales(first[1], second[1]) if first and second else None
    if first is None or second is None or scales is None:
        return None
    left, right = Formula(first[0] + scales[0]), Formula(second[0] + scales[1])
    return _same_formula(left, right, prove)


def _formula_and_unit(value: Value) -> tuple[str, Unit | None] | None:
    """Return the formula of a value, in brackets, and its unit."""
    if isinstance(value, Measured):
        return f"({value.formula})", value.unit
    if isinstance(value, Quantity):
        is_sure = value.unit is None or value.unit.is_sure
        return (f"({value.value})", value.unit) if is_sure else None
    return (f"({words_of(value.text)})", None) if isinstance(value, Formula) else None


def _scales(one: Unit | None, other: Unit | None) -> tuple[str, str] | None:
    """Return a factor for each formula, to compare them; None for units of different dimensions."""
    if one is None or other is None:
        return _in_degrees(one, "°"), _in_degrees(other, "°")
    if one.text == other.text:
        return "", ""
    if not one.is_known or not other.is_known:
        return None
    if one.powers == other.powers:
        return ("", "") if one.size == other.size else (f"*({one.size})", f"*({other.size})")
    if {one.powers, other.powers} == {_DEGREES, _RADIANS}:
        return _in_degrees(one, r"*\pi/180"), _in_degrees(other, r"*\pi/180")
    return None


def _in_degrees(unit: Unit | None, scale: str) -> str:
    return scale if unit is not None and unit.powers == _DEGREES else ""


def _same_assigned(one: Value, other: Value, prove: Prove) -> bool | None:
    """Compare values by name. A point gives the values in the order of the names. A list does not
    assign values to names, except for indexed names such as x_1 and x_2."""
    if isinstance(one, Assigned) and isinstance(other, Assigned):
        return _same_several(Several(one.values), Several(other.values), prove)
    assigned, bare = (one, other) if isinstance(one, Assigned) else (other, one)
    assert isinstance(assigned, Assigned)
    if isinstance(bare, Ordered):
        fits = assigned.has_order and (bare.opened, bare.closed) == ("(", ")")
    else:
        fits = isinstance(bare, Several) and bare.joined_by == "," and is_indexed(assigned)
    if not fits:
        return None
    assert isinstance(bare, Ordered | Several)
    values = tuple(named.value for named in assigned.values)
    pair = (values, bare.items) if assigned is one else (bare.items, values)
    return _each_same(*pair, prove)


def _same_text(one: Value, other: Value, prove: Prove) -> bool | None:
    if not (isinstance(one, Words) and isinstance(other, Words)):
        return None
    first, second = words_of(one.text), words_of(other.text)
    if _differ_by_prefix(first, second):
        return None
    if same_date(first, second):
        return True
    if same_words(first, second):
        return True
    return True if _packed_words(first) == _packed_words(second) else None


def _differ_by_prefix(one: str, other: str) -> bool:
    """Return True if unknown units differ in the case of a possible prefix: mpc and Mpc."""
    if len(one) != len(other) or len(one) > _MAX_MEASURE:
        return False
    first, second = _MEASURE.fullmatch(one), _MEASURE.fullmatch(other)
    return first is not None and second is not None and first[1] != second[1]


def _packed(text: str) -> str:
    """Return a text without the spaces and braces TeX ignores; spaces between digits stay."""
    bare = words_of(_unbraced(text))
    return _SPACE.sub("", bare) if " " in bare else bare


def _packed_words(text: str) -> str:
    """Return a text without spaces next to signs; spaces between words and numbers stay."""
    return _SPACE_OF_WORDS.sub("", words_of(_unbraced(text)))


@lru_cache(maxsize=1024)
def _unbraced(text: str) -> str:
    return re.sub(r"([_^])\{(\w)\}", r"\1\2", text)


def _formula(value: Value) -> str | None:
    """Return the formula of a value; None if it has none, for example because of a sure unit."""
    if isinstance(value, Formula):
        return words_of(value.text)
    if isinstance(value, Quantity):
        if value.unit is None or value.unit.text == "%":
            share = value.value / 100 if value.unit else value.value
            return str(share)
        if value.unit.powers == (("angle", 1),):
            return f"({value.value})°"
        if not value.unit.is_sure:
            return f"({value.value}){value.unit.text}"
    return None


def _same_several(one: Value, other: Value, prove: Prove) -> bool | None:
    """Compare the same values in any order, each the same number of times."""
    assert isinstance(one, Several)
    assert isinstance(other, Several)
    kinds = {"," if each.joined_by == "{" else each.joined_by for each in (one, other)}
    if len(kinds) > 1 or len(one.items) != len(other.items):
        return None
    if len(one.items) > _MAX_ITEMS:
        return None
    left = list(other.items)
    for item in one.items:
        match = next((at for at, candidate in enumerate(left) if candidate == item), None)
        if match is None:
            match = _proven_match(item, left, prove)
        if match is None:
            return None
        left.pop(match)
    return True


def _proven_match(item: Value, left: list[Value], prove: Prove) -> int | None:
    """Return the index of the first equal value; raise only if none is equal without a proof."""
    needs_proof = False
    for at, candidate in enumerate(left):
        try:
            if _same(item, candidate, prove):
                return at
        except NeedsProof:
            needs_proof = True
    if needs_proof:
        raise NeedsProof
    return None


def _same_ordered(one: Value, other: Value, prove: Prove) -> bool | None:
    assert isinstance(one, Ordered)
    assert isinstance(other, Ordered)
    if (one.opened, one.closed) != (other.opened, other.closed):
        return None
    return _each_same(one.items, other.items, prove)


def _same_matrix(one: Value, other: Value, prove: Prove) -> bool | None:
    assert isinstance(one, Matrix)
    assert isinstance(other, Matrix)
    if [len(row) for row in one.rows] != [len(row) for row in other.rows]:
        return None
    cells = [tuple(cell for row in matrix.rows for cell in row) for matrix in (one, other)]
    return _each_same(cells[0], cells[1], prove)


def _each_same(ones: tuple[Value, ...], others: tuple[Value, ...], prove: Prove) -> bool | None:
    """Compare element by element; a surely different element decides before any proof."""
    if len(ones) != len(others):
        return None
    needs_proof = False
    for one, other in zip(ones, others, strict=True):
        try:
            if not _same(one, other, prove):
                return None
        except NeedsProof:
            needs_proof = True
    if needs_proof:
        raise NeedsProof
    return True


def _same_relation(one: Value, other: Value, prove: Prove) -> bool | None:
    """Compare relations: both need the same signs, and the same differences of their sides."""
    assert isinstance(one, Relation)
    assert isinstance(other, Relation)
    if one.relations != other.relations:
        return None
    if one.sides == other.sides:
        return True
    pairs = list(zip(_differences(one), _differences(other), strict=True))
    if one.relations in (("=",), ("!=",)):
        return _same_equation(*pairs[0], prove)
    if not all(is_formula(first) and is_formula(second) for first, second in pairs):
        return None
    return all(prove(first, second) for first, second in pairs) or None


def _same_equation(one: str, other: str, prove: Prove) -> bool | None:
    """Return True if the differences of sides are equal, or multiples: y = 2x and 2x-y = 0."""
    if not is_formula(one) or not is_formula(other):
        return None
    if prove(one, other, but_for_a_factor=True) or prove(one, other):
        return True
    return prove(one, f"-({other})") or None


def _difference(value: Named | Relation) -> str | None:
    """Return the difference of an equation's sides; None for any other statement."""
    if isinstance(value, Relation):
        return _differences(value)[0] if value.relations == ("=",) else None
    name = min(value.names, key=len)
    if value.is_member or not isinstance(value.value, Formula) or not _VARIABLE.fullmatch(name):
        return None
    return f"({name})-({words_of(value.value.text)})"


def _differences(relation: Relation) -> list[str]:
    sides = [words_of(side) for side in relation.sides]
    return [f"({right})-({left})" for left, right in itertools.pairwise(sides)]


#: Kinds of values for which a single side decides how both are compared.
_LOOKED_INTO: tuple[tuple[type, Callable[[Value, Value, Prove], bool | None]], ...] = (
    (Named, _same_named),
    (Assigned, _same_assigned),
    (Measured, _same_measured),
    (Words, _same_text),
)
_BY_KIND: tuple[tuple[type, Callable[[Value, Value, Prove], bool | None]], ...] = (
    (Several, _same_several),
    (Ordered, _same_ordered),
    (Matrix, _same_matrix),
    (Relation, _same_relation),
)
