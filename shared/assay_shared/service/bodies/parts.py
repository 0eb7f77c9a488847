"""Values cut into small parts, so that no single step of joining them takes long.

A part is a tuple: `(LEAVES, [value, ...])`, `(OPEN, kind)` for the begin of a list, dict, tuple,
model or long text, or `(CLOSE, None)` for its end.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

LEAVES, OPEN, CLOSE = 0, 1, 2
Part = tuple[int, Any]
#: Most values in a part.
_MOST = 10_000
#: Most characters or bytes in a part.
_PIECE = 2**18
_FLAT = frozenset({int, float, bool, type(None)})


class Cutter:
    """Cutter of a value into parts."""

    def __init__(self) -> None:
        #: Weights by identity of values too heavy for a part; otherwise each level above would
        #: weigh them again.
        self._weights: dict[int, int] = {}

    def cut(self, value: object) -> Iterator[Part]:
        """Yield the parts of a value, in order."""
        if isinstance(value, str | bytes) and len(value) > _PIECE:
            yield OPEN, type(value)
            yield from ((LEAVES, [value[at : at + _PIECE]]) for at in range(0, len(value), _PIECE))
            yield CLOSE, None
            return
        if self._weigh(value) <= _MOST or not isinstance(value, list | tuple | dict | BaseModel):
            yield LEAVES, [value]
            return
        kind: object = type(value)
        items: Any = value
        if isinstance(value, dict):
            items = _sides(value)
        elif isinstance(value, BaseModel):
            kind = (type(value), value.model_fields_set, value.model_extra)
            items = _sides(value.__dict__)
        yield OPEN, kind
        if isinstance(items, list | tuple) and _is_flat(items):
            yield from ((LEAVES, items[at : at + _MOST]) for at in range(0, len(items), _MOST))
        else:
            yield from self._cut_items(items)
        yield CLOSE, None

    def _cut_items(self, items: Iterable[object]) -> Iterator[Part]:
        leaves: list[object] = []
        weight = 0
        for item in items:
            added = self._weigh(item)
            if leaves and weight + added > _MOST:
                yield LEAVES, leaves
                leaves, weight = [], 0
            if added > _MOST:
                yield from self.cut(item)
            else:
                leaves.append(item)
                weight += added
        if leaves:
            yield LEAVES, leaves

    def _weigh(self, value: object) -> int:
        """Return the number of values inside; a text counts 1 more for each 64 characters."""
        if isinstance(value, str | bytes):
            return 1 + len(value) // 64
        if isinstance(value, BaseModel):
            value = value.__dict__
        if not isinstance(value, list | tuple | dict):
            return 1
        known = self._weights.get(id(value))
        if known is not None:
            return known
        if isinstance(value, dict):
            weight = 1 + sum(map(self._weigh, _sides(value)))
        else:
            weight = 1 + (len(value) if _is_flat(value) else sum(map(self._weigh, value)))
        if weight > _MOST:
            self._weights[id(value)] = weight
        return weight


def _is_flat(items: Iterable[object]) -> bool:
    """Return True if all items are numbers or None. Fast for large lists, mostly of numbers."""
    return _FLAT.issuperset(map(type, items))


def _sides(value: dict[Any, Any]) -> Iterator[object]:
    """Return keys and values in turn."""
    return (side for pair in value.items() for side in pair)


class Joiner:
    """Joiner of parts into their value."""

    def __init__(self) -> None:
        self._open: list[tuple[Any, list[Any]]] = [(list, [])]

    def add(self, part: Part) -> None:
        """Add the next part."""
        what, content = part
        if what == LEAVES:
            self._open[-1][1].extend(content)
        elif what == OPEN:
            self._open.append((content, []))
        else:
            kind, items = self._open.pop()
            self._open[-1][1].append(_build(kind, items))

    def value(self) -> Any:
        """Return the whole value, after the last part."""
        ((_, (value,)),) = self._open
        return value


def _build(kind: Any, items: list[Any]) -> object:
    if kind is list:
        return items
    if kind is tuple:
        return tuple(items)
    if kind in (str, bytes):
        return kind().join(items)
    named = dict(zip(items[::2], items[1::2], strict=True))
    if kind is dict:
        return named
    model, fields_set, extra = kind
    built = model.__new__(model)
    built.__setstate__(
        {
            "__dict__": named,
            "__pydantic_fields_set__": fields_set,
            "__pydantic_extra__": extra,
            "__pydantic_private__": None,
        }
    )
    return built
