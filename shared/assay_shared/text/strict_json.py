"""JSON without duplicate keys: readers would not agree on the value of a duplicate key."""

import json
from typing import Any, NoReturn


class DuplicateKey(ValueError):
    """An object with two values for the same key."""

    def __init__(self, key: str) -> None:
        shown = key[:80].encode(errors="backslashreplace").decode()
        super().__init__(f"an object has the key {shown!r} twice")
        self.key = key


def read_strict_json(text: str | bytes, *, takes_nan: bool = False) -> Any:
    """Return the value of a JSON text.

    Raises:
        DuplicateKey: an object has a key twice.
        ValueError: the text is not JSON, nests too deeply, or holds NaN or an infinity without
            `takes_nan`.
    """
    return _decode(_READER_OF_NAN if takes_nan else _READER, text)


def read_strict_json_at(text: str, at: int) -> tuple[Any, int]:
    """Return the value that begins at a place of a text, and the place after the value.

    Raises:
        DuplicateKey, ValueError: see `read_strict_json`, with `takes_nan`.
    """
    try:
        return _READER_OF_NAN.raw_decode(text, at)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def check_keys(text: str | bytes) -> None:
    """Check JSON for another parser, before or after it reads the text.

    Raises:
        DuplicateKey: an object has a key twice.
        ValueError: the text is not JSON, or nests too deeply.
    """
    _decode(_CHECKER, text)


def _decode(decoder: json.JSONDecoder, text: str | bytes) -> Any:
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def _keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DuplicateKey(_first_twice(pairs))
    return found


def _drop(pairs: list[tuple[str, Any]]) -> None:
    """Check pairs like `_keep`, but keep none of them."""
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        raise DuplicateKey(_first_twice(pairs))


def _first_twice(pairs: list[tuple[str, Any]]) -> str:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            break
        seen.add(key)
    return key


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


_READER = json.JSONDecoder(object_pairs_hook=_keep, parse_constant=_refuse)
_READER_OF_NAN = json.JSONDecoder(object_pairs_hook=_keep)
#: Numbers stay texts: a check needs no value of theirs, however long they are.
_CHECKER = json.JSONDecoder(object_pairs_hook=_drop, parse_int=str, parse_float=str)
