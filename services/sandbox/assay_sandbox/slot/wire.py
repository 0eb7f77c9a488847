"""Values between a program's process and its grader's, by value and by exact type.

A message is one value: a tag byte, then lengths, bytes and items. Only exact types are taken apart,
with the interpreter's own operations, so that encoding calls no method of the program's. What has
no encoding of its own goes to a hook, which may send a name for it (`Encoder.foreign`).

Mutable containers are numbered in the order in which they are met, by the encoder and by the decoder
alike. A second mention is a number only, and so is a container that came with an earlier message of
the same conversation step: identity and cycles survive.
"""

import collections
import datetime
import decimal
import fractions
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 200
MAX_BYTES = 64 * 2**20
LENGTH = struct.Struct("!Q")
_CHUNK_BYTES = 2**20
_COUNT = struct.Struct("!I")
_FLOAT = struct.Struct("!d")
_COMPLEX = struct.Struct("!dd")
#: numpy's kinds of plain data.
_PLAIN_KINDS = frozenset("biufcSUmM")
MUTABLE = (
    list,
    dict,
    set,
    bytearray,
    collections.deque,
    collections.Counter,
    collections.OrderedDict,
    collections.defaultdict,
)
_NAMEDTUPLE_NAMES = frozenset(
    ["__doc__", "__slots__", "_fields", "_field_defaults", "__new__", "_make", "__replace__", "_replace", "__repr__", "_asdict", "__getnewargs__", "__match_args__", "__module__", "__annotations__", "__orig_bases__", "__dict__", "__weakref__", "__static_attributes__", "__firstlineno__", "__annotate_func__", "__annotations_cache__", "_field_types"]
)  # fmt: skip
_KEYS, _VALUES, _ITEMS = type({}.keys()), type({}.values()), type({}.items())


class CannotEncode(Exception):
    """A value that is too deep, or too large, to be sent."""


class CannotGrade(BaseException):
    """A question that only the program's process can answer, and that would decide a verdict."""


class Malformed(Exception):
    """A message that no encoder has written."""


def is_numpy_data(value: object) -> bool:
    """Whether it is an array or a scalar of numpy's own exact types."""
    numpy = sys.modules.get("numpy")
    kind = type(value)
    if numpy is None or getattr(kind, "__module__", None) != "numpy":
        return False
    return kind is numpy.ndarray or (issubclass(kind, numpy.generic) and kind.__mro__[0] is kind)


def is_mutable(value: object) -> bool:
    """Whether the value is one of the containers that are numbered."""
    if type(value) in MUTABLE:
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def is_namedtuple(value: object) -> bool:
    """Whether it is a named tuple with nothing of its own to compare by."""
    kind = type(value)
    if kind.__mro__[1:] != (tuple, object):
        return False
    names = kind.__dict__
    fields = names.get("_fields")
    if type(fields) is not tuple or any(type(name) is not str for name in fields):
        return False
    return not names.keys() & {"__eq__", "__ne__", "__lt__", "__hash__", "__iter__", "__len__"}


class Line:
    """A stream socket that carries messages: a length, and as many bytes."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)

    def send(self, message: bytes) -> None:
        self._socket.sendall(LENGTH.pack(len(message)) + message)

    def receive(self) -> bytes | None:
        """The next message; None when the other side is gone."""
        header = self._read(LENGTH.size)
        if header is None:
            return None
        (length,) = LENGTH.unpack(header)
        if length > 2 * MAX_BYTES:
            raise Malformed("a message is too long")
        return self._read(length)

    def _read(self, length: int) -> bytes | None:
        data = self._socket.recv(min(length, _CHUNK_BYTES))
        if len(data) == length:
            return data
        parts, missing = [data], length - len(data)
        while missing and parts[-1]:
            parts.append(self._socket.recv(min(missing, _CHUNK_BYTES)))
            missing -= len(parts[-1])
        return None if missing else b"".join(parts)


class Encoder:
    """Writes messages. `foreign` gives the bytes for a value that has no encoding, tag included."""

    def __init__(self, foreign: "Callable[[Encoder, Any, int], None]") -> None:
        self.foreign = foreign
        self.numbers: dict[int, int] = {}
        #: The numbered containers: it keeps their ids from being used again.
        self.shared: list[Any] = []
        self.parts: list[bytes] = []
        self.num_bytes = 0

    def dumps(self, value: object) -> bytes:
        """The message for one value; raises CannotEncode."""
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
        """Write one value."""
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
        """Write the number of a container that was met before; number it otherwise."""
        if not is_mutable(value):
            return False
        number = self.numbers.get(id(value))
        if number is not None:
            self.write(b"R", _COUNT.pack(number))
            return True
        self.numbers[id(value)] = len(self.shared)
        self.shared.append(value)
        return False

    def put_items(self, tag: bytes, items: Any, depth: int) -> None:
        """Write a tag, a count and the items."""
        self.write(tag, _COUNT.pack(len(items)))
        for item in items:
            self.put(item, depth + 1)

    def put_text(self, tag: bytes, text: bytes) -> None:
        self.write(tag, _COUNT.pack(len(text)), text)


def _put_int(self: Encoder, value: int, depth: int) -> None:
    self.put_text(b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def _put_pairs(tag: bytes) -> Callable[[Encoder, dict[Any, Any], int], None]:
    def put(self: Encoder, value: dict[Any, Any], depth: int) -> None:
        self.write(tag, _COUNT.pack(len(value)))
        for key, item in value.items():
            self.put(key, depth + 1)
            self.put(item, depth + 1)

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
    if value.dtype.kind in _PLAIN_KINDS and value.dtype.fields is None:
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
    if value.dtype.kind not in _PLAIN_KINDS or value.dtype.fields is not None:
        raise CannotEncode("a scalar of a structured type")
    self.put_text(b"p", value.dtype.str.encode())
    self.put_text(b"", value.tobytes())


def _put_namedtuple(self: Encoder, value: Any, depth: int) -> None:
    kind = type(value)
    self.write(b"M")
    self.put(kind.__name__, depth + 1)
    self.put(kind.__dict__["_fields"], depth + 1)
    self.put(not kind.__dict__.keys() - kind.__dict__["_fields"] <= _NAMEDTUPLE_NAMES, depth + 1)
    self.write(b"t", _COUNT.pack(tuple.__len__(value)))
    for item in tuple.__iter__(value):
        self.put(item, depth + 1)


def _offset_s(value: Any) -> float | None:
    """Of a time's zone; only fixed zones are sent."""
    if value.tzinfo is None:
        return None
    if type(value.tzinfo) is not datetime.timezone:
        raise CannotEncode("a time in a zone of its own")
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
    set: lambda self, value, depth: self.put_items(b"e", value, depth),
    frozenset: lambda self, value, depth: self.put_items(b"z", value, depth),
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
    """The encoding of a value whose type alone does not say it."""
    if is_numpy_data(value):
        return _put_array if type(value) is sys.modules["numpy"].ndarray else _put_scalar
    return _put_namedtuple if is_namedtuple(value) else None


class Decoder:
    """Reads messages. `foreign` gives the value for a tag that is not this module's."""

    def __init__(self, foreign: "Callable[[Decoder, bytes], Any]") -> None:
        self.foreign = foreign
        self.shared: list[Any] = []
        self._data = b""
        self._at = 0

    def loads(self, data: bytes) -> Any:
        """The value in a message; raises Malformed, and what building the value raises."""
        self._data, self._at = data, 0
        try:
            value = self.get(0)
        except (struct.error, UnicodeDecodeError, IndexError, RecursionError) as error:
            raise Malformed(str(error)) from None
        if self._at != len(data):
            raise Malformed("more than a message")
        return value

    def take(self, count: int) -> bytes:
        """The next bytes."""
        end = self._at + count
        if end > len(self._data):
            raise Malformed("less than a message")
        part = self._data[self._at : end]
        self._at = end
        return part

    def count(self) -> int:
        return int(_COUNT.unpack(self.take(4))[0])

    def text(self) -> bytes:
        return self.take(self.count())

    def get(self, depth: int) -> Any:
        """The next value."""
        if depth > MAX_DEPTH + 10:
            raise Malformed("the value nests too deeply")
        tag = self.take(1)
        getter = _GETTERS.get(tag)
        if getter is None:
            return self.foreign(self, tag)
        return getter(self, depth)

    def items(self, depth: int) -> list[Any]:
        return [self.get(depth + 1) for _ in range(self.count())]

    def number(self, value: Any) -> Any:
        """Give a container the next number."""
        self.shared.append(value)
        return value

    def whole(self, depth: int, kind: type) -> Any:
        """The next value, which must be of that exact type."""
        value = self.get(depth + 1)
        if type(value) is not kind:
            raise Malformed(f"not a {kind.__name__}")
        return value


def _get_sequence(make: Callable[[], Any], add: str) -> Any:
    def get(self: Decoder, depth: int) -> Any:
        value = self.number(make())
        put = getattr(value, add)
        for _ in range(self.count()):
            put(self.get(depth + 1))
        return value

    return get


def _get_pairs(make: Callable[[], Any]) -> Any:
    def get(self: Decoder, depth: int) -> Any:
        value = self.number(make())
        for _ in range(self.count()):
            key = self.get(depth + 1)
            dict.__setitem__(value, key, self.get(depth + 1))
        return value

    return get


def _get_defaultdict(self: Decoder, depth: int) -> Any:
    value: Any = self.number(collections.defaultdict())
    if self.take(1) != b"d":
        raise Malformed("no items")
    for _ in range(self.count()):
        key = self.get(depth + 1)
        value[key] = self.get(depth + 1)
    value.default_factory = self.get(depth + 1)
    return value


def _get_deque(self: Decoder, depth: int) -> Any:
    maxlen = self.get(depth + 1)
    value: Any = self.number(collections.deque(maxlen=maxlen))
    if self.take(1) != b"l":
        raise Malformed("no items")
    for _ in range(self.count()):
        value.append(self.get(depth + 1))
    return value


def _dtype(self: Decoder) -> Any:
    import numpy

    dtype = numpy.dtype(self.text().decode())
    if dtype.kind not in _PLAIN_KINDS or dtype.fields is not None:
        raise Malformed("an array of objects")
    return dtype


def _get_array(self: Decoder, depth: int) -> Any:
    import numpy

    dtype = _dtype(self)
    number = len(self.shared)
    self.shared.append(None)
    shape = self.whole(depth, tuple)
    value = numpy.frombuffer(self.text(), dtype).reshape(shape).copy()
    self.shared[number] = value
    return value


def _get_object_array(self: Decoder, depth: int) -> Any:
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


def _get_scalar(self: Decoder, depth: int) -> Any:
    import numpy

    dtype = _dtype(self)
    return numpy.frombuffer(self.text(), dtype)[0]


def make_namedtuple(name: str, fields: tuple[str, ...], has_more: bool) -> type:
    """A class that behaves as a named tuple of these fields.

    Of a class with more in it (methods), what is not here cannot be known.
    """
    if not all(type(field) is str and field.isidentifier() for field in (name, *fields)):
        raise Malformed("not the fields of a named tuple")
    try:
        made = collections.namedtuple(name, fields)  # type: ignore[misc]
    except ValueError as error:
        raise Malformed(str(error)) from None
    if has_more:

        def missing(self: object, wanted: str) -> object:
            raise CannotGrade(f"{name}.{wanted} is in the program's process")

        made.__getattr__ = missing  # type: ignore[attr-defined]
        made.__repr__ = lambda self: missing(self, "__repr__")  # type: ignore[method-assign,return-value,assignment]
    return made


def _get_namedtuple(self: Decoder, depth: int) -> Any:
    name, fields = self.whole(depth, str), self.whole(depth, tuple)
    kind = make_namedtuple(name, fields, self.get(depth + 1) is True)
    items = self.whole(depth, tuple)
    if len(items) != len(fields):
        raise Malformed("not the items of a named tuple")
    return tuple.__new__(kind, items)


def _get_ref(self: Decoder, depth: int) -> Any:
    return self.shared[self.count()]


def _built(make: Callable[..., Any]) -> Any:
    def get(self: Decoder, depth: int) -> Any:
        state = self.whole(depth, tuple)
        try:
            return make(*state)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise Malformed(str(error)) from None

    return get


def _zone(offset_s: float | None) -> datetime.timezone | None:
    return None if offset_s is None else datetime.timezone(datetime.timedelta(seconds=offset_s))


def _make_time(*state: Any) -> datetime.time:
    *parts, fold, offset_s = state
    return datetime.time(*parts, tzinfo=_zone(offset_s), fold=fold)


def _make_datetime(*state: Any) -> datetime.datetime:
    *parts, fold, offset_s = state
    return datetime.datetime(*parts, tzinfo=_zone(offset_s), fold=fold)


def _make_bytearray(self: Decoder, depth: int) -> bytearray:
    value = bytearray(self.text())
    self.number(value)
    return value


_GETTERS: dict[bytes, Callable[[Decoder, int], Any]] = {
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
    b"z": lambda self, depth: frozenset(self.items(depth)),
    b"l": _get_sequence(list, "append"),
    b"e": _get_sequence(set, "add"),
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


def contents(value: Any) -> tuple[Any, ...]:
    """What a numbered container has in it, as a value that can be put back by `refill`."""
    if isinstance(value, dict):
        return tuple(value.items())
    if isinstance(value, bytearray):
        return (bytes(value),)
    if is_numpy_data(value):
        data = b"" if value.dtype.kind == "O" else value.tobytes()
        return (value.dtype.str, value.shape, data, _objects(value))
    return tuple(value)


def _objects(value: Any) -> tuple[Any, ...]:
    return tuple(value.ravel().tolist()) if value.dtype.kind == "O" else ()


def refill(value: Any, new: tuple[Any, ...]) -> None:
    """Give a container of the grader's the contents that the program gave its copy."""
    if isinstance(value, dict):
        value.clear()
        for key, item in new:
            dict.__setitem__(value, key, item)
    elif isinstance(value, set):
        value.clear()
        value.update(new)
    elif isinstance(value, list | collections.deque):
        value.clear()
        value.extend(new)
    elif isinstance(value, bytearray):
        value[:] = new[0]
    else:
        _refill_array(value, *new)


def _refill_array(value: Any, kind: str, shape: tuple[int, ...], data: bytes, objects: Any) -> None:
    import numpy

    if kind != value.dtype.str or value.dtype.kind == "O":
        raise CannotGrade("an array changed its type")
    if shape != value.shape:
        value.resize(shape, refcheck=False)
    numpy.copyto(value, numpy.frombuffer(data, value.dtype).reshape(shape))
