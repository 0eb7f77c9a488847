"""Whether an answer equals a reference: at once where it can be told, else with formulas."""

import itertools
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

from assay_shared.answers.formula import equal_formulas, is_formula
from assay_shared.answers.latex import MAX_LENGTH, OPEN, plain, words_of
from assay_shared.answers.quantity import Quantity
from assay_shared.answers.structure import (
    Formula,
    Matrix,
    Measured,
    Named,
    Ordered,
    Relation,
    Several,
    Value,
    Words,
    value_of,
)
from assay_shared.answers.units import Unit
from assay_shared.answers.words import same_words

_MAX_ITEMS = 64


class Prove(Protocol):
    """Tells whether two formulas are equal, or are but for a rational factor."""

    def __call__(self, one: str, other: str, but_for_a_factor: bool = False) -> bool: ...


#: The name of a number that varies, and not of a function.
_VARIABLE = re.compile(r"[A-Za-z](?:_\w)?|\\[a-z]{2,8}")


class NeedsProof(Exception):
    """Two formulas are written differently: only sympy can tell, which takes a process."""


def settled(answer: str, reference: str) -> bool | None:
    """True for what is surely equal, False for what surely is not, None where words differ.

    Raises:
        NeedsProof: `equal_by_proof` may find them equal.
    """
    return _compared(answer, reference, _unproven)


def equal_by_proof(answer: str, reference: str) -> bool:
    """Whether both are equal, formulas by their value. Slow, and without a limit."""
    return _compared(answer, reference, equal_formulas) is True


def _unproven(one: str, other: str, but_for_a_factor: bool = False) -> bool:
    raise NeedsProof


def _compared(answer: str, reference: str, prove: Prove) -> bool | None:
    if not answer.strip() or not reference.strip():
        return None
    if answer == reference:
        return True
    if max(len(answer), len(reference)) > MAX_LENGTH:
        return True if same_words(answer, reference) else None
    one, other = plain(answer), plain(reference)
    if (OPEN in one or OPEN in other) and _packed(one) == _packed(other):
        return True
    return _same(value_of(one), value_of(other), prove)


def _same(one: Value, other: Value, prove: Prove) -> bool | None:
    """By their kinds; a name, and an empty difference of kind, are looked through."""
    if one == other:
        return True
    if isinstance(one, Named) or isinstance(other, Named):
        return _same_named(one, other, prove)
    if isinstance(one, Quantity) and isinstance(other, Quantity):
        return one.equals(other)
    if isinstance(one, Measured) or isinstance(other, Measured):
        return _same_measured(one, other, prove)
    if isinstance(one, Words) or isinstance(other, Words):
        return _same_text(one, other)
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
    """x = 5 is 5, and is not y = 5. A relation may be the same equation."""
    if isinstance(one, Named) and isinstance(other, Named):
        if not one.names & other.names:
            return _same_equation(one, other, prove)
        return _same(one.value, other.value, prove)
    named, bare = (one, other) if isinstance(one, Named) else (other, one)
    assert isinstance(named, Named)
    if isinstance(bare, Relation):
        return _same_equation(named, bare, prove)
    if isinstance(bare, Words):
        return _same_text(named.value, bare)
    return _same(named.value, bare, prove)


def _same_measured(one: Value, other: Value, prove: Prove) -> bool | None:
    """The same formula and unit, which one side may leave out; known units are converted."""
    if isinstance(one, Measured) and isinstance(other, Formula):
        if _packed(one.text) == _packed(other.text):
            return True
    elif isinstance(other, Measured) and isinstance(one, Formula):
        return _same_measured(other, one, prove)
    first, second = _formula_and_unit(one), _formula_and_unit(other)
    if first is None or second is None:
        return None
    scales = _scales(first[1], second[1])
    if scales is None:
        return None
    left, right = (
        f"{formula}{scale}" for (formula, _), scale in zip((first, second), scales, strict=True)
    )
    if _packed(left) == _packed(right):
        return True
    if not is_formula(left) or not is_formula(right):
        return None
    return prove(left, right) or None


def _formula_and_unit(value: Value) -> tuple[str, Unit | None] | None:
    """In brackets, the formula that stands before a unit."""
    if isinstance(value, Measured):
        return f"({value.formula})", value.unit
    if isinstance(value, Quantity):
        is_sure = value.unit is None or (value.unit.is_sure and not value.unit.is_compound)
        return (f"({value.value})", value.unit) if is_sure else None
    return (f"({words_of(value.text)})", None) if isinstance(value, Formula) else None


def _scales(one: Unit | None, other: Unit | None) -> tuple[str, str] | None:
    """What each formula is to be multiplied with; None for units of different things."""
    if one is None or other is None or one.text == other.text:
        return "", ""
    if not one.is_known or not other.is_known:
        return None
    if one.powers == other.powers:
        return ("", "") if one.size == other.size else (f"*({one.size})", f"*({other.size})")
    angles = {(("angle", 1),): "°", (("radians", 1),): ""}
    if one.powers in angles and other.powers in angles:
        return angles[one.powers], angles[other.powers]
    return None


def _same_text(one: Value, other: Value) -> bool | None:
    if not (isinstance(one, Words) and isinstance(other, Words)):
        return None
    first, second = words_of(one.text), words_of(other.text)
    return True if same_words(first, second) or _packed(first) == _packed(second) else None


def _packed(text: str) -> str:
    """Without the spaces and braces that mean nothing to TeX."""
    bare = _unbraced(text)
    return "".join(words_of(bare).split())


@lru_cache(maxsize=1024)
def _unbraced(text: str) -> str:
    return re.sub(r"([_^])\{(\w)\}", r"\1\2", text)


def _formula(value: Value) -> str | None:
    """The formula that a value is; a number's with its sign and without its unit."""
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
    """The same values in any order, each as often."""
    assert isinstance(one, Several)
    assert isinstance(other, Several)
    if one.joined_by != other.joined_by or len(one.items) != len(other.items):
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
    """The first that equals; raises only where none does without a proof."""
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
    """Element by element; one that surely differs decides before any proof."""
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
    """The same relations between the same differences."""
    assert isinstance(one, Relation)
    assert isinstance(other, Relation)
    if one.relations != other.relations:
        return None
    if one.sides == other.sides:
        return True
    if one.relations == ("=",):
        return _same_equation(one, other, prove)
    pairs = list(zip(_differences(one), _differences(other), strict=True))
    if not all(is_formula(first) and is_formula(second) for first, second in pairs):
        return None
    return all(prove(first, second) for first, second in pairs) or None


def _same_equation(one: Value, other: Value, prove: Prove) -> bool | None:
    """Whether the sides of two equations differ by the same, or by a multiple: y = 2x, 2x-y = 0."""
    first, second = _sides(one), _sides(other)
    if first is None or second is None:
        return None
    if not is_formula(first) or not is_formula(second):
        return None
    if prove(first, second, but_for_a_factor=True) or prove(first, second):
        return True
    return prove(first, f"-({second})") or None


def _sides(value: Value) -> str | None:
    """One side of an equation less the other, where it is one of several variables."""
    if isinstance(value, Relation) and value.relations == ("=",):
        return _differences(value)[0]
    if isinstance(value, Named) and isinstance(value.value, Formula):
        name = min(value.names, key=len)
        if _VARIABLE.fullmatch(name):
            return f"({name})-({words_of(value.value.text)})"
    return None


def _differences(relation: Relation) -> list[str]:
    sides = [words_of(side) for side in relation.sides]
    return [f"({right})-({left})" for left, right in itertools.pairwise(sides)]


_BY_KIND: tuple[tuple[type, Callable[[Value, Value, Prove], bool | None]], ...] = (
    (Several, _same_several),
    (Ordered, _same_ordered),
    (Matrix, _same_matrix),
    (Relation, _same_relation),
)
