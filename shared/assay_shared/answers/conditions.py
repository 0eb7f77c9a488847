"""Values and conditions joined by "and", "or" or a comma: x > 3 or x < -3."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from assay_shared.answers.values.quantity import Quantity
from assay_shared.answers.values.values import (
    Assigned,
    Formula,
    Named,
    Ordered,
    Relation,
    Several,
    Value,
)

_MOST, _LEAST = float("inf"), float("-inf")
_INFINITE = {"\\infty": _MOST, "+\\infty": _MOST, "-\\infty": _LEAST}
_MAX_POINTS = 16
_COORDINATES = frozenset("xyz")
_INDEXED = re.compile(r"([A-Za-z])_?\d")


@dataclass(frozen=True, order=True)
class _Span:
    """An interval of numbers, or a single number; sorted by its lower end."""

    low: Fraction | float
    excludes_low: bool
    high: Fraction | float
    includes_high: bool

    @property
    def is_empty(self) -> bool:
        if self.low == self.high:
            return self.excludes_low or not self.includes_high
        return self.low > self.high


def together(items: Sequence[Value], join: str) -> Value:
    """Return the value of several values joined by "and", "or" or ","."""
    flat = _flattened(items)
    if len(flat) == 1:
        return flat[0]
    if any(_is_condition(item) for item in flat):
        return _conditions(flat, join)
    return _solutions(flat) or _assigned(flat, join) or Several(flat)


def _flattened(items: Sequence[Value]) -> tuple[Value, ...]:
    """Return the values, with the items of a list in place of the list."""
    flat: list[Value] = []
    for item in items:
        is_list = isinstance(item, Several) and item.joined_by == ","
        flat += item.items if is_list else [item]  # type: ignore[union-attr]  # it is `Several`
    return tuple(flat)


def _is_condition(item: Value) -> bool:
    if isinstance(item, Several):
        return item.joined_by in ("and", "or")
    return isinstance(item, Relation) or (isinstance(item, Named) and item.is_member)


def is_statement(item: Value) -> bool:
    """Return True for a statement about a name, such as x = 5 or x > 5; False for 5 alone."""
    return isinstance(item, Named | Assigned) or _is_condition(item)


def _solutions(items: Sequence[Value]) -> Value | None:
    """Return several values of the same name: x = 1 or x = 2; x = 1, 2; None for other items."""
    first = items[0]
    if not isinstance(first, Named):
        return None
    names, values = first.names, []
    for item in items:
        if isinstance(item, Named):
            names &= item.names
        elif not isinstance(item, Quantity | Formula):
            return None
        values.append(item.value if isinstance(item, Named) else item)
    return Named(names, Several(_flattened(values))) if names else None


def _assigned(items: Sequence[Value], join: str) -> Value | None:
    """Return the values of different names; a repeated name begins the next assignment."""
    if not all(isinstance(item, Named) for item in items):
        return None
    if join == "or":
        return Several(tuple(items), "or")
    groups: list[list[Named]] = [[]]
    for item in items:
        assert isinstance(item, Named)
        if any(item.names & known.names for known in groups[-1]):
            groups.append([])
        groups[-1].append(item)
    values = [group[0] if len(group) == 1 else assignment(group) for group in groups]
    return values[0] if len(values) == 1 else Several(tuple(values))


def assignment(values: Sequence[Named]) -> Assigned:
    """Return values of different names; they are also a point if the names are in alphabetical
    order.

    Coordinates are sorted: y = 2, x = 1 is the point (1, 2).
    """
    ordered = point(values)
    names = [_name_of(value) for value in ordered.values]
    return replace(ordered, has_order=names == sorted(names))


def point(values: Sequence[Named]) -> Assigned:
    """Return the point with these named values, in their order; coordinates are sorted."""
    if {_name_of(value) for value in values} <= _COORDINATES:
        values = sorted(values, key=_name_of)
    return Assigned(tuple(values), has_order=True)


def _name_of(value: Named) -> str:
    return min(value.names, key=len)


def is_indexed(assigned: Assigned) -> bool:
    """Return True if all names are the same letter with an index: x_1 and x_2 are two solutions."""
    letters = set()
    for value in assigned.values:
        found = [_INDEXED.fullmatch(name) for name in value.names]
        letters.add(next((one[1] for one in found if one is not None), None))
    return len(letters) == 1 and None not in letters


def _conditions(items: tuple[Value, ...], join: str) -> Value:
    """Return a single set of numbers if all conditions share a name; else the conditions."""
    named = [item for item in items if isinstance(item, Named)]
    names = frozenset.intersection(*(item.names for item in named)) if named else frozenset()
    bare = [item.value if isinstance(item, Named) else item for item in items]
    others = [item for item in items if not isinstance(item, Named)]
    if not names or any(join != "or" or not isinstance(other, Ordered) for other in others):
        return Several(items, "or" if join == "or" else "and")
    found = united(bare) if join == "or" else _both(bare, join)
    if found is None:
        return Several(items, "and" if join == "and" else ",")
    return Named(names, found, is_member=True)


def united(parts: Sequence[Value]) -> Value:
    """Return the union of intervals and sets, merged in order if all ends are known numbers."""
    spans = _spans(parts)
    if spans is not None:
        return _value_of_spans(_merged(spans))
    flat: list[Value] = []
    for part in parts:
        is_union = isinstance(part, Several) and part.joined_by == "\\cup"
        flat += part.items if is_union else [part]  # type: ignore[union-attr]  # it is `Several`
    return Several(tuple(flat), "\\cup")


def all_but(points: Sequence[Value]) -> Value | None:
    """Return all real numbers but the points; None if the order of the points is unknown."""
    if len(points) > 1:
        numbers = {
            point.value for point in points if isinstance(point, Quantity) and point.unit is None
        }
        if not len(numbers) == len(points) <= _MAX_POINTS:
            return None
        points = [Quantity(number) for number in sorted(numbers)]
    elif not all(isinstance(point, Quantity | Formula) for point in points):
        return None
    ends = [Formula("-\\infty"), *points, Formula("\\infty")]
    return united([Ordered("(", pair, ")") for pair in itertools.pairwise(ends)])


def _both(parts: list[Value], join: str) -> Value | None:
    """Return the intersection of all parts. A comma means "or" between disjoint parts, and "and"
    between parts with all numbers as their union; any other comma is ambiguous: None."""
    spans = [_spans([part]) for part in parts]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return _bounded(parts)
    common = known[0]
    for others in known[1:]:
        cuts = (_cut(one, other) for one in common for other in others)
        common = [cut for cut in cuts if not cut.is_empty]
    if join == "and":
        return _value_of_spans(_merged(common))
    whole = _merged([span for part in known for span in part])
    if not common:
        return _value_of_spans(whole)
    if [(span.low, span.high) for span in whole] == [(_LEAST, _MOST)]:
        return _value_of_spans(_merged(common))
    return None


def difference(parts: list[Value]) -> Value | None:
    """Return the numbers in the first set and in none of the others; None if any set has an end
    without a known number."""
    first, *others = (_spans([part]) for part in parts)
    for other in others:
        if first is None or other is None:
            return None
        cuts = [_cut(one, rest) for one in first for rest in _complement(other)]
        first = [cut for cut in cuts if not cut.is_empty]
    return None if first is None or not others else _value_of_spans(_merged(first))


def _complement(spans: list[_Span]) -> list[_Span]:
    """Return all numbers outside of the spans."""
    gaps: list[_Span] = []
    low: Fraction | float = _LEAST
    excludes_low = True
    for span in _merged(spans):
        gaps.append(_Span(low, excludes_low, span.low, span.excludes_low))
        low, excludes_low = span.high, span.includes_high
    gaps.append(_Span(low, excludes_low, _MOST, False))
    return [gap for gap in gaps if gap.low < gap.high or not gap.is_empty]


def beyond(bound: Fraction, includes: bool, is_within: bool) -> Value | None:
    """Return the numbers with an absolute value below the bound (if `is_within`) or above it; None
    for a bound of 0 or less."""
    if bound <= 0:
        return None
    if is_within:
        return _value_of_spans([_Span(-bound, not includes, bound, includes)])
    below = _Span(_LEAST, True, -bound, includes)
    return _value_of_spans([below, _Span(bound, not includes, _MOST, False)])


def intersection(parts: list[Value]) -> Value | None:
    """Return the intersection of intervals and sets; None if their ends are not known numbers."""
    return _both(parts, "and")


def _bounded(parts: list[Value]) -> Value | None:
    """Return the interval between a lower and an upper bound; the bounds may be any values."""
    if len(parts) != 2 or not all(isinstance(part, Ordered) for part in parts):
        return None
    for low, high in (parts, parts[::-1]):
        assert isinstance(low, Ordered)
        assert isinstance(high, Ordered)
        if (
            _end(low.items[1]) == _INFINITE["\\infty"]
            and _end(high.items[0]) == -_INFINITE["\\infty"]
        ):
            return Ordered(low.opened, (low.items[0], high.items[1]), high.closed)
    return None


def _cut(one: _Span, other: _Span) -> _Span:
    low = max((one.low, one.excludes_low), (other.low, other.excludes_low))
    high = min((one.high, one.includes_high), (other.high, other.includes_high))
    return _Span(*low, *high)


def _spans(parts: Sequence[Value]) -> list[_Span] | None:
    """Return the spans of intervals and sets of plain numbers; None if any part is not such."""
    found: list[_Span] = []
    for part in parts:
        if isinstance(part, Several):
            inner = _spans(part.items) if part.joined_by in ("{", ",", "\\cup") else None
            if inner is None:
                return None
            found += inner
            continue
        span = _span(part)
        if span is None:
            return None
        found.append(span)
    return found


def _span(part: Value) -> _Span | None:
    if isinstance(part, Quantity) and part.unit is None:
        return _Span(part.value, False, part.value, True)
    if not isinstance(part, Ordered) or len(part.items) != 2 or part.opened not in ("(", "["):
        return None
    low, high = _end(part.items[0]), _end(part.items[1])
    if low is None or high is None:
        return None
    span = _Span(low, part.opened == "(", high, part.closed == "]")
    return None if span.is_empty else span


def _end(value: Value) -> Fraction | float | None:
    if isinstance(value, Quantity):
        return value.value if value.unit is None else None
    return _INFINITE.get(value.text.replace(" ", "")) if isinstance(value, Formula) else None


def _merged(spans: list[_Span]) -> list[_Span]:
    """Return the same numbers in spans without contact."""
    merged: list[_Span] = []
    for span in sorted(span for span in spans if not span.is_empty):
        last = merged[-1] if merged else None
        touches = last is not None and (
            span.low < last.high
            or (span.low == last.high and (last.includes_high or not span.excludes_low))
        )
        if last is None or not touches:
            merged.append(span)
        else:
            high = max((last.high, last.includes_high), (span.high, span.includes_high))
            merged[-1] = _Span(last.low, last.excludes_low, *high)
    return merged


def _value_of_spans(spans: list[_Span]) -> Value:
    if not spans:
        return Formula("\\emptyset")
    parts = tuple(_value_of_span(span) for span in spans)
    if all(isinstance(part, Quantity) for part in parts):
        return Several(parts, "{")
    return parts[0] if len(parts) == 1 else Several(parts, "\\cup")


def _value_of_span(span: _Span) -> Value:
    if isinstance(span.low, Fraction) and span.low == span.high:
        return Quantity(span.low)
    opened, closed = "(" if span.excludes_low else "[", "]" if span.includes_high else ")"
    return Ordered(opened, (_value_of_end(span.low), _value_of_end(span.high)), closed)


def _value_of_end(end: Fraction | float) -> Value:
    if isinstance(end, Fraction):
        return Quantity(end)
    return Formula("-\\infty" if end < 0 else "\\infty")
