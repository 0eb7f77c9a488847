"""The format of messages between a program's process and its grader's.

Values are sent by value and exact type. A message is a single value: a tag byte, then lengths,
bytes and items. Only exact types are taken apart, with the interpreter's own operations: encoding
calls no method of the program's. A value without an encoding goes to a hook (`Encoder.foreign`);
the hook may send a name for it.

The encoder and the decoder number mutable containers in the order of their first mention. A second
mention is a number only, and so is a container of a request in its reply: identity and cycles
survive.
"""

import collections
import operator
import socket
import struct
import sys
from typing import Any

from assay_sandbox.slot.messages import sets

MAX_DEPTH = 200
MAX_BYTES = 64 * 2**20
LENGTH = struct.Struct("!Q")
_CHUNK_BYTES = 2**20
#: Bytes read at least at a time: a single call of the kernel for most messages.
_AHEAD_BYTES = 2**12
#: Depth of nested calls to send a message and read its answer.
_NUM_FRAMES = 80
COUNT = struct.Struct("!I")
_FLOAT = struct.Struct("!d")
_COMPLEX = struct.Struct("!dd")
#: numpy's kinds of plain data.
PLAIN_KINDS = frozenset("biufcSUmM")
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


class CannotEncode(Exception):
    """A value too deep, or too large, to be sent."""


class CannotGrade(BaseException):
    """A question only the program's process could answer, and its answer would decide a verdict."""


class MalformedMessage(Exception):
    """A message not written by an encoder."""


def need_frames(count: int = _NUM_FRAMES) -> None:
    """Return if a message can be sent and its answer be read, at this depth of calls.

    Raises:
        RecursionError: too deep. Raised here, before a message is left half read: otherwise the
            count of answers would be lost.
    """
    if count:
        need_frames(count - 1)


def is_numpy_data(value: object) -> bool:
    """Return True for an array or a scalar of numpy's own exact types."""
    numpy = sys.modules.get("numpy")
    kind = type(value)
    if numpy is None or getattr(kind, "__module__", None) != "numpy":
        return False
    return kind is numpy.ndarray or (issubclass(kind, numpy.generic) and kind.__mro__[0] is kind)


def is_mutable(value: object) -> bool:
    """Return True if the value is a numbered container."""
    if type(value) in MUTABLE:
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def is_namedtuple(value: object) -> bool:
    """Return True for a named tuple without its own comparison, hash, iteration or length."""
    kind = type(value)
    if kind.__mro__[1:] != (tuple, object):
        return False
    names = kind.__dict__
    fields = names.get("_fields")
    if type(fields) is not tuple or any(type(name) is not str for name in fields):
        return False
    return not names.keys() & {"__eq__", "__ne__", "__lt__", "__hash__", "__iter__", "__len__"}


class MessageLine:
    """A stream socket for messages, each a length and as many bytes."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._ahead = b""

    def send(self, message: bytes) -> None:
        self._socket.sendall(LENGTH.pack(len(message)) + message)

    def receive(self) -> bytes | None:
        """Return the next message, or None when the other side is gone."""
        header = self._read(LENGTH.size)
        if header is None:
            return None
        (length,) = LENGTH.unpack(header)
        if length > 2 * MAX_BYTES:
            raise MalformedMessage("a message is too long")
        return self._read(length)

    def _read(self, length: int) -> bytes | None:
        parts, missing = [self._ahead], length - len(self._ahead)
        while missing > 0:
            part = self._socket.recv(min(max(missing, _AHEAD_BYTES), _CHUNK_BYTES))
            if not part:
                return None
            parts.append(part)
            missing -= len(part)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._ahead = data[length:]
        return data[:length]


def contents(value: Any) -> tuple[Any, ...]:
    """Return the contents of a numbered container, as a value for `refill` to put back."""
    if isinstance(value, dict):
        return tuple(value.items())
    if isinstance(value, bytearray):
        return (bytes(value),)
    if is_numpy_data(value):
        data = b"" if value.dtype.kind == "O" else value.tobytes()
        return (value.dtype.str, value.shape, data, _objects(value))
    if isinstance(value, set):
        return (sets.table_size(value), *value)
    return tuple(value)


def snapshot(value: Any) -> tuple[Any, ...]:
    """Return the very objects in a container, for `is_changed` to compare with later."""
    if isinstance(value, dict):
        return (*value, *value.values())
    return contents(value)


def is_changed(value: Any, before: tuple[Any, ...]) -> bool:
    """Return True if a container's contents differ from its snapshot."""
    now = snapshot(value)
    if isinstance(value, set | list | dict | collections.deque):
        if type(value) is set:
            now, before = now[1:], before[1:]
        return len(now) != len(before) or not all(map(operator.is_, now, before))
    if is_numpy_data(value) and value.dtype.kind == "O":
        now, before = now[1:2] + now[3], before[1:2] + before[3]
        return len(now) != len(before) or not all(map(_is_same, now, before))
    return now != before


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is tuple and one == other)


def _objects(value: Any) -> tuple[Any, ...]:
    return tuple(value.ravel().tolist()) if value.dtype.kind == "O" else ()


def refill(value: Any, new: tuple[Any, ...]) -> None:
    """Give a container the contents of its copy in the other process."""
    if isinstance(value, dict):
        value.clear()
        for key, item in new:
            value[key] = item
    elif isinstance(value, set):
        value.clear()
        if not sets.fill(value, list(new[1:]), new[0]):
            raise CannotGrade("a set whose order is not known in another process")
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
