"""JSON answers, in pieces if large, so that no single step blocks the event loop for long."""

import asyncio
import base64
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Send

#: An answer with more text than this in it is written in pieces.
_LARGE = 128 * 2**10
#: Characters of a text, or bytes of a content, per piece. Base64 encodes bytes in threes.
_PIECE = 3 * 2**16
#: Items of a list per piece.
_SLICE = 32
_NUMBERS = frozenset({int, float, bool})


async def send_json(send: Send, value: object, status: int) -> None:
    """Send a value as the whole answer: a model, or lists and dicts of models and plain values."""
    if _size(value) > _LARGE:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for piece in _gather(_write(value)):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})
        return
    body = _dump(value) if isinstance(value, BaseModel) else b"".join(_write(value))
    length = (b"content-length", b"%d" % len(body))
    headers = [length, (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def in_slices(value: object, depth: int = 2) -> Iterator[bytes]:
    """Yield the JSON of plain values in pieces; no step takes more than a millisecond.

    For use in a thread: even there, a single call for megabytes would hold up the event loop. Lists
    within `depth` levels are written item by item, and longer lists further in by the slice.
    """
    if isinstance(value, dict) and value:
        separator = b"{"
        for name, item in value.items():
            yield separator + to_json(name) + b":"
            yield from in_slices(item, depth - 1)
            separator = b","
        yield b"}"
    elif isinstance(value, list) and (depth > 0 or len(value) > _SLICE):
        separator = b"["
        for start in range(0, len(value), 1 if depth > 0 else _SLICE):
            yield separator
            if depth > 0:
                yield from in_slices(value[start], depth - 1)
            else:
                yield to_json(value[start : start + _SLICE])[1:-1]
            separator = b","
        yield b"[]" if separator == b"[" else b"]"
    else:
        yield to_json(value)


def _size(value: object) -> int:
    """Return the number of characters and bytes in the texts and contents of a value."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, BaseModel):
        value = value.__dict__
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return 0
    size = 0
    for item in value:
        kind = type(item)
        if kind is str or kind is bytes:
            size += len(item)
        elif item and kind not in _NUMBERS:
            size += _size(item)
    return size


def _gather(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer pieces."""
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) > _LARGE:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


def _write(value: object) -> Iterator[bytes]:
    """Yield a value's JSON in pieces; bytes, such as a file's content, become base64."""
    if isinstance(value, str):
        yield b'"'
        for start in range(0, len(value), _PIECE):
            yield to_json(value[start : start + _PIECE])[1:-1]
        yield b'"'
    elif isinstance(value, bytes):
        yield b'"'
        for start in range(0, len(value), _PIECE):
            yield base64.b64encode(value[start : start + _PIECE])
        yield b'"'
    elif isinstance(value, BaseModel):
        yield from _write_model(value)
    elif isinstance(value, dict):
        yield from _write_object(value)
    elif isinstance(value, list | tuple):
        yield from _write_list(value)
    else:
        yield to_json(value, inf_nan_mode="null")


def _write_model(model: BaseModel) -> Iterator[bytes]:
    if _size(model) > _LARGE:
        yield from _write_object(model.__dict__)
    else:
        yield _dump(model)


def _dump(model: BaseModel) -> bytes:
    return model.__pydantic_serializer__.to_json(model)


def _write_object(items: dict[str, object]) -> Iterator[bytes]:
    separator = b"{"
    for name, value in items.items():
        yield separator + to_json(name) + b":"
        yield from _write(value)
        separator = b","
    yield b"{}" if separator == b"{" else b"}"


def _write_list(items: list[object] | tuple[object, ...]) -> Iterator[bytes]:
    separator = b"["
    for value in items:
        yield separator
        yield from _write(value)
        separator = b","
    yield b"[]" if separator == b"[" else b"]"
