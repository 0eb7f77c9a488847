"""Sets that iterate in the order of a set in another process.

The order depends on the hashes of the items, on the size of the set's table, on the order in which
items were added, and on what was removed. Hashes of texts and numbers are the same in all slots.
From the size and the order follows where in the table each item can lie, and from that how to build
such a table. What was built is checked: None, not a set in another order, is what fails here.
"""

import operator
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import chain, permutations
from typing import Any

_BARE_BYTES = set.__sizeof__(set())
_ENTRY_BYTES = 16
_SMALLEST = 8
#: Of more items it takes seconds to find out where in the table they lie.
_MAX_ITEMS = 2**14
#: So few are tried in every order.
_MAX_PERMUTED = 5
#: A larger table may be of another size, if only the items are in their order.
_EXACT = 1024
#: How CPython looks for a place: it tries neighbors first, then mixes in bits of the hash.
_NUM_NEIGHBORS = 9
_PERTURB_SHIFT = 5
_NUM_PLACES = 60
_HASH_BITS = 2**64 - 1


def table_size(value: Any) -> int:
    """Return how many places the table of a set has."""
    kind = set if isinstance(value, set) else frozenset
    more = kind.__sizeof__(value) - _BARE_BYTES
    return more // _ENTRY_BYTES if more > 0 else _SMALLEST


def fill(value: set[Any], items: list[Any], size: int) -> bool:
    """Fill an empty set so that it iterates over the items in their order; false if none is known.

    `size` is that of the table which they come from.
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
            return True  # what is added to it may come in another order
    return False


def freeze(items: list[Any], size: int) -> frozenset[Any] | None:
    """Return a frozen set that iterates over the items in their order; None if none is known."""
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
    """Whether a set iterates over just these objects, in their order."""
    found = list(value)
    return len(found) == len(items) and all(map(operator.is_, found, items))


def _probes(item: Any, size: int) -> Iterator[int]:
    """The places where a table of that size looks for an item, in order."""
    mask = size - 1
    perturb = hash(item) & _HASH_BITS
    at = perturb & mask
    while True:
        near = _NUM_NEIGHBORS if at + _NUM_NEIGHBORS <= mask else 0
        yield from range(at, at + near + 1)
        perturb >>= _PERTURB_SHIFT
        at = (at * 5 + 1 + perturb) & mask


class _Layout:
    """Where the items lie in a table."""

    def __init__(self, items: list[Any], size: int, tried: list[list[int]]) -> None:
        """`tried` are the places that are taken when an item is added, with its own as the last."""
        self._items = items
        self._size = size
        self._tried = tried
        self._owners = {places[-1]: number for number, places in enumerate(tried)}

    @classmethod
    def find(cls, items: list[Any], size: int) -> "_Layout | None":
        """The likeliest layout that has the items in their order."""
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
        """The items, those that lie where their hash says first."""
        home, others = self._split()
        return [self._items[number] for number in (*home, *others)]

    def _split(self) -> tuple[list[int], list[int]]:
        """The items that lie where their hash says, and the others in an order to add them in."""
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
        """Fill an empty set. Numbers stand where the table has to have no free place meanwhile."""
        home, others = self._split()
        needed = set(chain.from_iterable(self._tried)) - self._owners.keys()
        if self._size > _SMALLEST:
            # A set that takes in another one gets twice as many places as items, at least.
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
        """Numbers that lie at these places, and are no items."""
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
    """Places for an item, with how many are tried before each."""
    found: dict[int, int] = {}
    for number, place in zip(range(_NUM_PLACES), _probes(item, size), strict=False):
        found.setdefault(place, number)
    return dict(sorted(found.items()))


def _places_before(item: Any, size: int, wanted: int) -> list[int]:
    """The places that are tried for an item up to that one."""
    found: list[int] = []
    for place in _probes(item, size):
        found.append(place)
        if place == wanted:
            return found
    raise AssertionError("an item lies where it is never looked for")


def _ascending(columns: list[dict[int, int]]) -> list[int] | None:
    """One place of each column, in ascending order, with the least tries in all."""
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
