"""Values that calls return: decoded from the harness's JSON, and compared with expected ones."""

import json
import math
from dataclasses import dataclass

from pydantic import JsonValue

MAX_SHOWN = 200


@dataclass(frozen=True, eq=False)
class Opaque:
    """A value of a type that cannot leave the program; equal to nothing but itself."""

    type_name: str


class MalformedValue(ValueError):
    """A record that the harness would not have written: the program forged or broke it."""


def decode(text: bytes) -> object:
    """The value in a `value` record.

    Raises:
        MalformedValue: it is not what the harness writes.
    """
    try:
        return _untag(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError, UnicodeDecodeError) as error:
        raise MalformedValue(str(error)) from error


def _untag(value: JsonValue) -> object:
    if isinstance(value, list):
        return [_untag(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((tag, inner),) = value.items()
    if tag == "tuple":
        return tuple(_items(inner))
    if tag == "set":
        return frozenset(_hashable(item) for item in _items(inner))
    if tag == "dict":
        return {_hashable(k): v for k, v in (_items(pair) for pair in _list(inner))}
    if tag == "int":
        return int(str(inner), 16)
    if tag == "float":
        return float(str(inner))
    return Opaque(str(inner))


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise TypeError("a list was expected")
    return value


def _items(value: JsonValue) -> list[object]:
    return [_untag(item) for item in _list(value)]


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def same(got: object, expected: JsonValue) -> bool:
    """Equal as Python sees it, but a bool is no number and a tuple equals the list of its items."""
    if isinstance(got, bool) or isinstance(expected, bool):
        return got is expected
    if isinstance(got, tuple | list) and isinstance(expected, list):
        pairs = zip(got, expected, strict=False)
        return len(got) == len(expected) and all(same(g, e) for g, e in pairs)
    if isinstance(got, dict) and isinstance(expected, dict):
        return got.keys() == expected.keys() and all(same(got[k], expected[k]) for k in expected)
    if isinstance(got, float) and math.isnan(got):
        return isinstance(expected, float) and math.isnan(expected)
    return bool(got == expected)


def show(value: object) -> str:
    """For a message: what was returned, cut short."""
    try:
        text = f"a {value.type_name}" if isinstance(value, Opaque) else repr(value)
    except ValueError:  # an integer of more digits than Python prints
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
