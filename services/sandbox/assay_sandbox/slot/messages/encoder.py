"""Writes messages, see `wire`."""

import collections
import datetime
import decimal
import fractions
import struct
import sys
from collections.abc import Callable
from typing import Any

from assay_sandbox.slot.messages import packing, sets
from assay_sandbox.slot.messages.wire import (
    COUNT,
    MAX_BYTES,
    MAX_DEPTH,
    PLAIN_KINDS,
    CannotEncode,
    is_mutable,
    is_namedtuple,
    is_numpy_data,
)

_FLOAT = struct.Struct("!d")
_COMPLEX = struct.Struct("!dd")
_NAMEDTUPLE_NAMES = frozenset(
    [
        "__doc__",
        "__slots__",
        "_fields",
        "_field_defaults",
        "__new__",
        "_make",
        "__replace__",
        "_replace",
        "__repr__",
        "_asdict",
        "__getnewargs__",
        "__match_args__",
        "__module__",
        "__annotations__",
        "__orig_bases__",
        "__dict__",
        "__weakref__",
        "__static_attributes__",
        "__firstlineno__",
        "__annotate_func__",
        "__annotations_cache__",
        "_field_types",
    ]
)
_NONE: dict[object, object] = {}
_KEYS, _VALUES, _ITEMS = type(_NONE.keys()), type(_NONE.values()), type(_NONE.items())


class Encoder:
    """Writer of messages. `foreign` writes a value without an encoding, including a tag."""

    def __init__(self, foreign: "Callable[[Encoder, Any, int], None]") -> None:
        self.foreign = foreign
        self.numbers: dict[int, int] = {}
        #: The numbered containers, kept alive: otherwise their ids could be used again.
        self.shared: list[Any] = []
        self.parts: list[bytes] = []
        self.num_bytes = 0

    def adopt(self, shared: list[Any]) -> None:
        """Take over the containers both sides share, with their numbers."""
        self.shared = list(shared)
        self.numbers = {id(value): number for number, value in enumerate(shared)}

    def dumps(self, value: object) -> bytes:
        """Return the message for a value; raise CannotEncode if it is too deep or too large."""
        self.parts, self.num_bytes = [], 0
        try:
            self.put(value, 0)
        except RecursionError:
            raise CannotEncode("the value nests too deeply") from None
        return b"".join(self.parts)

    def write(self, *parts: bytes) -> None:
        for part in parts:
            self.num_bytes += len(part)
        if self.num_bytes > MAX_BYTES:
            raise CannotEncode("the value is too large to be sent")
        self.parts += parts

    def put(self, value: Any, depth: int) -> None:
        """Write a value."""
        if depth > MAX_DEPTH:
            raise CannotEncode("the value nests too deeply")
        put = _PUTTERS.get(type(value))
        if put is None:
            put = _putter_of(value)
        if put is None:
            self.foreign(self, value, depth)
        elif not self.put_number(value):
            put(self, value, depth)

    def put_number(self, value: Any) -> bool:
        """Write the number of a known container and return True; number a new container."""
        if not is_mutable(value):
            return False
        number = self.numbers.get(id(value))
        if number is not None:
            self.write(b"R", COUNT.pack(number))
            return True
        self.numbers[id(value)] = len(self.shared)
        self.shared.append(value)
        return False

    def put_items(self, tag: bytes, items: Any, depth: int) -> None:
        """Write a tag, a count and the items: as a block, if `packing` takes them."""
        self.write(tag, COUNT.pack(len(items)))
        packed = packing.pack(items)
        if packed is not None:
            self.write(packing.TAG, *packed)
            return
        for item in items:
            self.put(item, depth + 1)

    def put_text(self, tag: bytes, text: bytes) -> None:
        self.write(tag, COUNT.pack(len(text)), text)


def _put_int(self: Encoder, value: int, depth: int) -> None:
    self.put_text(b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def _put_set(tag: bytes) -> Callable[[Encoder, Any, int], None]:
    def put(self: Encoder, value: Any, depth: int) -> None:
        self.put_items(tag + COUNT.pack(sets.table_size(value)), value, depth)

    return put


def _put_pairs(tag: bytes) -> Callable[[Encoder, dict[Any, Any], int], None]:
    def put(self: Encoder, value: dict[Any, Any], depth: int) -> None:
        self.put_items(tag, value.keys(), depth)
        self.put_items(b"", value.values(), depth)

    return put


def _put_defaultdict(self: Encoder, value: Any, depth: int) -> None:
    self.write(b"j")
    _put_pairs(b"d")(self, value, depth)
    self.put(value.default_factory, depth + 1)


def _put_deque(self: Encoder, value: Any, depth: int) -> None:
    self.write(b"q")
    self.put(value.maxlen, depth + 1)
    self.put_items(b"l", value, depth)


def _put_array(self: Encoder, value: Any, depth: int) -> None:
    if value.dtype.kind in PLAIN_KINDS and value.dtype.fields is None:
        self.put_text(b"P", value.dtype.str.encode())
        self.put(value.shape, depth + 1)
        self.put_text(b"", value.tobytes())
    elif value.dtype.kind == "O":
        self.write(b"Q")
        self.put(value.shape, depth + 1)
        self.put_items(b"t", value.ravel().tolist(), depth)
    else:
        raise CannotEncode("an array of a structured type")


def _put_scalar(self: Encoder, value: Any, depth: int) -> None:
    if value.dtype.kind not in PLAIN_KINDS or value.dtype.fields is not None:
        raise CannotEncode("a scalar of a structured type")
    self.put_text(b"p", value.dtype.str.encode())
    self.put_text(b"", value.tobytes())


def _put_namedtuple(self: Encoder, value: Any, depth: int) -> None:
    kind = type(value)
    self.write(b"M")
    self.put(kind.__name__, depth + 1)
    self.put(kind.__dict__["_fields"], depth + 1)
    self.put(not kind.__dict__.keys() - kind.__dict__["_fields"] <= _NAMEDTUPLE_NAMES, depth + 1)
    self.write(b"t", COUNT.pack(tuple.__len__(value)))
    for item in tuple.__iter__(value):
        self.put(item, depth + 1)


def _offset_s(value: Any) -> float | None:
    """Return the offset of a time's zone; only fixed zones are sent."""
    if value.tzinfo is None:
        return None
    if type(value.tzinfo) is not datetime.timezone:
        raise CannotEncode("a time in a zone without a fixed offset")
    return value.tzinfo.utcoffset(None).total_seconds()


def _state(name: bytes, take: Callable[[Any], tuple[Any, ...]]) -> Any:
    def put(self: Encoder, value: Any, depth: int) -> None:
        self.write(name)
        self.put(take(value), depth + 1)

    return put


_PUTTERS: dict[type, Callable[[Encoder, Any, int], None]] = {
    type(None): lambda self, value, depth: self.write(b"N"),
    type(Ellipsis): lambda self, value, depth: self.write(b"E"),
    type(NotImplemented): lambda self, value, depth: self.write(b"n"),
    bool: lambda self, value, depth: self.write(b"T" if value else b"F"),
    int: _put_int,
    float: lambda self, value, depth: self.write(b"f", _FLOAT.pack(value)),
    complex: lambda self, value, depth: self.write(b"c", _COMPLEX.pack(value.real, value.imag)),
    str: lambda self, value, depth: self.put_text(b"s", value.encode("utf-8", "surrogatepass")),
    bytes: lambda self, value, depth: self.put_text(b"b", value),
    bytearray: lambda self, value, depth: self.put_text(b"a", bytes(value)),
    tuple: lambda self, value, depth: self.put_items(b"t", value, depth),
    list: lambda self, value, depth: self.put_items(b"l", value, depth),
    set: _put_set(b"e"),
    frozenset: _put_set(b"z"),
    dict: _put_pairs(b"d"),
    collections.Counter: _put_pairs(b"u"),
    collections.OrderedDict: _put_pairs(b"o"),
    collections.defaultdict: _put_defaultdict,
    collections.deque: _put_deque,
    _KEYS: lambda self, value, depth: self.put_items(b"k", list(value), depth),
    _VALUES: lambda self, value, depth: self.put_items(b"v", list(value), depth),
    _ITEMS: lambda self, value, depth: self.put_items(b"w", list(value), depth),
    range: _state(b"r", lambda value: (value.start, value.stop, value.step)),
    slice: _state(b"x", lambda value: (value.start, value.stop, value.step)),
    decimal.Decimal: _state(b"D", lambda value: tuple(value.as_tuple())),
    fractions.Fraction: _state(b"/", lambda value: (value.numerator, value.denominator)),
    datetime.date: _state(b"1", lambda value: (value.year, value.month, value.day)),
    datetime.timedelta: _state(b"2", lambda value: (value.days, value.seconds, value.microseconds)),
    datetime.time: _state(
        b"3",
        lambda v: (v.hour, v.minute, v.second, v.microsecond, v.fold, _offset_s(v)),
    ),
    datetime.datetime: _state(
        b"4",
        lambda v: (
            *(v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond),
            *(v.fold, _offset_s(v)),
        ),
    ),
}


def _putter_of(value: Any) -> Callable[[Encoder, Any, int], None] | None:
    """Return the encoding of numpy data or a named tuple, else None."""
    if is_numpy_data(value):
        return _put_array if type(value) is sys.modules["numpy"].ndarray else _put_scalar
    return _put_namedtuple if is_namedtuple(value) else None
