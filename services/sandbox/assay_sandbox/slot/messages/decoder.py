"""Reads messages, see `wire`. Their content is not trusted: it can only become data."""

import collections
import datetime
import decimal
import fractions
import re
import struct
import weakref
from collections.abc import Callable
from typing import Any

from assay_sandbox.slot.messages import packing, sets
from assay_sandbox.slot.messages.wire import (
    COUNT,
    MAX_DEPTH,
    PLAIN_KINDS,
    CannotGrade,
    MalformedMessage,
)

_DTYPE = re.compile(r"[<>|=][biufcSUmM][0-9]{1,9}(\[[0-9]*[a-zA-Zμ]{1,3}\])?")
#: Classes of named tuples made here to stand for classes of the program's.
MADE: weakref.WeakSet[type] = weakref.WeakSet()
_UNKNOWN_ORDER = "a set whose order is not known in another process"
_FLOAT = struct.Struct("!d")
_COMPLEX = struct.Struct("!dd")


class ValueDecoder:
    """Reader of messages. `foreign` returns the value for a tag unknown to this module."""

    def __init__(self, foreign: "Callable[[ValueDecoder, bytes], Any]") -> None:
        self.foreign = foreign
        self.shared: list[Any] = []
        self._data = b""
        self._at = 0

    def loads(self, data: bytes) -> Any:
        """Return the value in a message; raise MalformedMessage, or any error of building it."""
        self._data, self._at = data, 0
        try:
            value = self.get(0)
        except (struct.error, UnicodeDecodeError, IndexError, RecursionError) as error:
            raise MalformedMessage(str(error)) from None
        if self._at != len(data):
            raise MalformedMessage("bytes are left after the message")
        return value

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        end = self._at + count
        if end > len(self._data):
            raise MalformedMessage("the message ends too early")
        part = self._data[self._at : end]
        self._at = end
        return part

    def count(self) -> int:
        return int(COUNT.unpack(self.take(4))[0])

    def text(self) -> bytes:
        return self.take(self.count())

    def get(self, depth: int) -> Any:
        """Return the next value."""
        if depth > MAX_DEPTH + 10:
            raise MalformedMessage("the value nests too deeply")
        tag = self.take(1)
        getter = _GETTERS.get(tag)
        if getter is None:
            return self.foreign(self, tag)
        return getter(self, depth)

    def items(self, depth: int) -> list[Any]:
        """Return the next values: first comes their count."""
        count = self.count()
        if count and self._data[self._at : self._at + 1] == packing.TAG:
            self._at += 1
            return packing.unpack(self.take(1), count, self.take)
        return [self.get(depth + 1) for _ in range(count)]

    def number(self, value: Any) -> Any:
        """Give a container the next number, and return the container."""
        self.shared.append(value)
        return value

    def whole(self, depth: int, kind: type) -> Any:
        """Return the next value, after a check of its exact type."""
        value = self.get(depth + 1)
        if type(value) is not kind:
            raise MalformedMessage(f"not a {kind.__name__}")
        return value


def _get_list(self: ValueDecoder, depth: int) -> list[Any]:
    value: list[Any] = self.number([])
    value += self.items(depth)
    return value


def _get_pairs(make: Callable[[], Any]) -> Any:
    def get(self: ValueDecoder, depth: int) -> Any:
        value = self.number(make())
        _fill_pairs(self, value, depth)
        return value

    return get


def _fill_pairs(self: ValueDecoder, value: dict[Any, Any], depth: int) -> None:
    keys, values = self.items(depth), self.items(depth)
    if len(keys) != len(values):
        raise MalformedMessage("not as many values as keys")
    for key, item in zip(keys, values, strict=True):
        value[key] = item


def _get_set(self: ValueDecoder, depth: int) -> set[Any]:
    value: set[Any] = self.number(set())
    size = self.count()
    if not sets.fill(value, self.items(depth), size):
        raise CannotGrade(_UNKNOWN_ORDER)
    return value


def _get_frozenset(self: ValueDecoder, depth: int) -> frozenset[Any]:
    size = self.count()
    value = sets.freeze(self.items(depth), size)
    if value is None:
        raise CannotGrade(_UNKNOWN_ORDER)
    return value


def _get_defaultdict(self: ValueDecoder, depth: int) -> Any:
    value: Any = self.number(collections.defaultdict())
    if self.take(1) != b"d":
        raise MalformedMessage("no items")
    _fill_pairs(self, value, depth)
    value.default_factory = self.get(depth + 1)
    return value


def _get_deque(self: ValueDecoder, depth: int) -> Any:
    maxlen = self.get(depth + 1)
    value: Any = self.number(collections.deque(maxlen=maxlen))
    if self.take(1) != b"l":
        raise MalformedMessage("no items")
    value += self.items(depth)
    return value


def _dtype(self: ValueDecoder) -> Any:
    import numpy

    name = self.text().decode()
    if not _DTYPE.fullmatch(name):
        raise MalformedMessage("not a type of plain data")
    dtype = numpy.dtype(name)
    if dtype.kind not in PLAIN_KINDS or dtype.fields is not None:
        raise MalformedMessage("an array of objects")
    return dtype


def _get_array(self: ValueDecoder, depth: int) -> Any:
    import numpy

    dtype = _dtype(self)
    number = len(self.shared)
    self.shared.append(None)
    shape = self.whole(depth, tuple)
    value = numpy.frombuffer(self.text(), dtype).reshape(shape).copy()
    self.shared[number] = value
    return value


def _get_object_array(self: ValueDecoder, depth: int) -> Any:
    import numpy

    number = len(self.shared)
    self.shared.append(None)
    shape = self.whole(depth, tuple)
    items = self.whole(depth, tuple)
    flat = numpy.empty(len(items), dtype=object)
    for at, item in enumerate(items):
        flat[at] = item
    value = flat.reshape(shape)
    self.shared[number] = value
    return value


def _get_scalar(self: ValueDecoder, depth: int) -> Any:
    import numpy

    dtype = _dtype(self)
    return numpy.frombuffer(self.text(), dtype)[0]


def make_namedtuple(name: str, fields: tuple[str, ...], has_more: bool) -> type:
    """Return a class with the behavior of a named tuple of these fields.

    If the program's class has more in it (methods), access to an unknown attribute is refused.
    """
    if not all(type(field) is str and field.isidentifier() for field in (name, *fields)):
        raise MalformedMessage("not the fields of a named tuple")
    try:
        made = collections.namedtuple(name, fields)  # type: ignore[misc]
    except ValueError as error:
        raise MalformedMessage(str(error)) from None
    MADE.add(made)
    if has_more:

        def missing(self: object, wanted: str) -> object:
            raise CannotGrade(f"{name}.{wanted} is in the program's process")

        made.__getattr__ = missing  # type: ignore[attr-defined]
        made.__repr__ = lambda self: missing(self, "__repr__")  # type: ignore[method-assign,return-value,assignment]
    return made


def _get_namedtuple(self: ValueDecoder, depth: int) -> Any:
    name, fields = self.whole(depth, str), self.whole(depth, tuple)
    kind = make_namedtuple(name, fields, self.get(depth + 1) is True)
    items = self.whole(depth, tuple)
    if len(items) != len(fields):
        raise MalformedMessage("not the items of a named tuple")
    return tuple.__new__(kind, items)


def _get_ref(self: ValueDecoder, depth: int) -> Any:
    return self.shared[self.count()]


def _built(make: Callable[..., Any]) -> Any:
    def get(self: ValueDecoder, depth: int) -> Any:
        state = self.whole(depth, tuple)
        try:
            return make(*state)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise MalformedMessage(str(error)) from None

    return get


def _zone(offset_s: float | None) -> datetime.timezone | None:
    return None if offset_s is None else datetime.timezone(datetime.timedelta(seconds=offset_s))


def _make_time(*state: Any) -> datetime.time:
    hour, minute, second, microsecond, fold, offset_s = state
    return datetime.time(hour, minute, second, microsecond, _zone(offset_s), fold=fold)


def _make_datetime(*state: Any) -> datetime.datetime:
    year, month, day, *rest = state
    return datetime.datetime.combine(datetime.date(year, month, day), _make_time(*rest))


def _make_bytearray(self: ValueDecoder, depth: int) -> bytearray:
    value = bytearray(self.text())
    self.number(value)
    return value


_GETTERS: dict[bytes, Callable[[ValueDecoder, int], Any]] = {
    b"N": lambda self, depth: None,
    b"E": lambda self, depth: Ellipsis,
    b"n": lambda self, depth: NotImplemented,
    b"T": lambda self, depth: True,
    b"F": lambda self, depth: False,
    b"i": lambda self, depth: int.from_bytes(self.text(), "little", signed=True),
    b"f": lambda self, depth: _FLOAT.unpack(self.take(8))[0],
    b"c": lambda self, depth: complex(*_COMPLEX.unpack(self.take(16))),
    b"s": lambda self, depth: self.text().decode("utf-8", "surrogatepass"),
    b"b": lambda self, depth: self.text(),
    b"a": _make_bytearray,
    b"t": lambda self, depth: tuple(self.items(depth)),
    b"z": _get_frozenset,
    b"l": _get_list,
    b"e": _get_set,
    b"d": _get_pairs(dict),
    b"u": _get_pairs(collections.Counter),
    b"o": _get_pairs(collections.OrderedDict),
    b"j": _get_defaultdict,
    b"q": _get_deque,
    b"k": lambda self, depth: dict.fromkeys(self.items(depth)).keys(),
    b"v": lambda self, depth: dict(enumerate(self.items(depth))).values(),
    b"w": lambda self, depth: dict(self.items(depth)).items(),
    b"r": _built(range),
    b"x": _built(slice),
    b"D": _built(lambda *state: decimal.Decimal(state)),
    b"/": _built(fractions.Fraction),
    b"1": _built(datetime.date),
    b"2": _built(datetime.timedelta),
    b"3": _built(_make_time),
    b"4": _built(_make_datetime),
    b"P": _get_array,
    b"Q": _get_object_array,
    b"p": _get_scalar,
    b"M": _get_namedtuple,
    b"R": _get_ref,
}
