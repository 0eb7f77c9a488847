"""Sets with the iteration order of a set in another process.

The order depends on the hashes of the items, on the size of the set's table, on the order of
additions, and on removals. Hashes of texts and numbers are the same in all slots. The size and the
order determine the possible places of each item in the table, and the places determine how to build
such a table. Every built set is checked: a failure returns None or False, never another order.
"""

import operator
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import chain, permutations
from typing import Any

_BARE_BYTES = set.__sizeof__(set())
_ENTRY_BYTES = 16
_SMALLEST = 8
#: With more items, it takes seconds to find their places in the table.
_MAX_ITEMS = 2**14
#: At most this many items are tried in every order.
_MAX_PERMUTED = 5
#: A table above this size may have another size here, as long as the items are in order.
_EXACT = 1024
#: CPython's search for a place: it tries neighbors first, then mixes in bits of the hash.
_NUM_NEIGHBORS = 9
_PERTURB_SHIFT = 5
_NUM_PLACES = 60
_HASH_BITS = 2**64 - 1


def table_size(value: Any) -> int:
    """Return the number of places in the table of a set."""
    kind = set if isinstance(value, set) else frozenset
    more = kind.__sizeof__(value) - _BARE_BYTES
    return more // _ENTRY_BYTES if more > 0 else _SMALLEST


def fill(value: set[Any], items: list[Any], size: int) -> bool:
    """Fill an empty set to iterate over the items in their order; return False if no way is known.

    `size` is the size of the original set's table.
    """
    sources: tuple[Iterable[Any], ...] = (items, frozenset(items))
    for source in sources:
        value.update(source)
        if is_in_order(value, items) and (table_size(value) == size or size > _EXACT):
            return True
        value.clear()
    layout = _Layout.find(items, size)
    if layout is not None:
        layout.build(value)
        if is_in_order(value, items):
            return True
    for source in (*sources, *_permutations(items)):
        value.clear()
        value.update(source)
        if is_in_order(value, items):
            return True  # later additions may come in another order
    return False


def freeze(items: list[Any], size: int) -> frozenset[Any] | None:
    """Return a frozen set iterating over the items in their order; None if no way is known."""
    for found in (frozenset(items), frozenset(frozenset(items)), frozenset(set(items))):
        if is_in_order(found, items):
            return found
    sources: list[Iterable[Any]] = []
    layout = _Layout.find(items, size)
    if layout is not None:
        built: set[Any] = set()
        layout.build(built)
        order = layout.in_order_of_adding()
        sources = [order, set(order), built]
    for source in chain(sources, _permutations(items)):
        found = frozenset(source)
        if is_in_order(found, items):
            return found
    return None


def _permutations(items: list[Any]) -> Iterable[tuple[Any, ...]]:
    return permutations(items) if len(items) <= _MAX_PERMUTED else ()


def is_in_order(value: Iterable[Any], items: list[Any]) -> bool:
    """Return True if a set iterates over just these objects, in their order."""
    found = list(value)
    return len(found) == len(items) and all(map(operator.is_, found, items))


def _probes(item: Any, size: int) -> Iterator[int]:
    """Yield the places tried for an item in a table of this size, in order."""
    mask = size - 1
    perturb = hash(item) & _HASH_BITS
    at = perturb & mask
    while True:
        near = _NUM_NEIGHBORS if at + _NUM_NEIGHBORS <= mask else 0
        yield from range(at, at + near + 1)
        perturb >>= _PERTURB_SHIFT
        at = (at * 5 + 1 + perturb) & mask


class _Layout:
    """The places of the items in a table."""

    def __init__(self, items: list[Any], size: int, tried: list[list[int]]) -> None:
        """Take in `tried`, per item, the places taken at its addition, with its own place last."""
        self._items = items
        self._size = size
        self._tried = tried
        self._owners = {places[-1]: number for number, places in enumerate(tried)}

    @classmethod
    def find(cls, items: list[Any], size: int) -> "_Layout | None":
        """Return the likeliest layout with the items in their order, or None."""
        if size & (size - 1) or not _SMALLEST <= size <= 4 * _MAX_ITEMS or len(items) > _MAX_ITEMS:
            return None
        columns = [_candidates(item, size) for item in items]
        chosen = _ascending(columns)
        if chosen is None:
            return None
        tried = [
            _places_before(item, size, place) for item, place in zip(items, chosen, strict=True)
        ]
        return cls(items, size, tried)

    def in_order_of_adding(self) -> list[Any]:
        """Return the items in an order to add them in, first the items at their hash's place."""
        home, others = self._split()
        return [self._items[number] for number in (*home, *others)]

    def _split(self) -> tuple[list[int], list[int]]:
        """Return the items at their hash's place, and the others in an order to add them in."""
        home = [number for number, places in enumerate(self._tried) if len(places) == 1]
        graph = {
            number: [self._owners[place] for place in places[:-1] if place in self._owners]
            for number, places in enumerate(self._tried)
            if len(places) > 1
        }
        try:
            order = list(TopologicalSorter(graph).static_order())
        except CycleError:
            order = list(graph)
        return home, [number for number in order if number in graph]

    def build(self, value: set[Any]) -> None:
        """Fill an empty set. Meanwhile, numbers fill places not allowed to be free."""
        home, others = self._split()
        needed = set(chain.from_iterable(self._tried)) - self._owners.keys()
        if self._size > _SMALLEST:
            # A set updated with another set gets at least twice as many places as items.
            missing = max(5, self._size // 4) - len(home) - len(needed)
            free = (p for p in range(self._size) if p not in self._owners and p not in needed)
            needed.update(place for place, _ in zip(free, range(missing), strict=False))
        first = [self._items[number] for number in home[: self._size // 2 - 1 - len(needed)]]
        rest = home[self._size // 2 - 1 - len(needed) :]
        fillers = self._fillers(needed)
        value.update(frozenset([*fillers, *first]))
        for number in (*rest, *others):
            value.add(self._items[number])
        for filler in fillers:
            value.discard(filler)

    def _fillers(self, places: Iterable[int]) -> list[int]:
        """Return numbers with these places, none of them equal to an item."""
        above = self._size << 20
        taken = {item for item in self._items if isinstance(item, int | float | complex)}
        found = []
        for place in places:
            filler = above + place
            while filler in taken:
                filler += above
            found.append(filler)
        return found


def _candidates(item: Any, size: int) -> dict[int, int]:
    """Return the places for an item, each with the number of places tried before it."""
    found: dict[int, int] = {}
    for number, place in zip(range(_NUM_PLACES), _probes(item, size), strict=False):
        found.setdefault(place, number)
    return dict(sorted(found.items()))


def _places_before(item: Any, size: int, wanted: int) -> list[int]:
    """Return the places tried for an item, up to and including `wanted`."""
    found: list[int] = []
    for place in _probes(item, size):
        found.append(place)
        if place == wanted:
            return found
    raise AssertionError("an item lies at a place never tried for it")


def _ascending(columns: list[dict[int, int]]) -> list[int] | None:
    """Return a place of each column, ascending, with the fewest tries in all; None if none fit."""
    best: list[tuple[int, int, int]] = [(-1, 0, -1)]  # place, cost, index in the column before
    history = []
    for column in columns:
        new: list[tuple[int, int, int]] = []
        at, cheapest, source = 0, -1, -1
        for place, cost in column.items():
            while at < len(best) and best[at][0] < place:
                if cheapest < 0 or best[at][1] < cheapest:
                    cheapest, source = best[at][1], at
                at += 1
            if cheapest >= 0:
                new.append((place, cheapest + cost, source))
        if not new:
            return None
        history.append(new)
        best = new
    if not history:
        return []
    index = min(range(len(best)), key=lambda number: best[number][1])
    chosen = []
    for column_best in reversed(history):
        place, _, source = column_best[index]
        chosen.append(place)
        index = source
    return chosen[::-1]
