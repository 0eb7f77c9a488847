"""Many numbers or texts as a block of bytes: a list of a million is read in milliseconds."""

import array
import itertools
from collections.abc import Callable, Collection
from typing import Any

from assay_sandbox.slot.messages.wire import MalformedMessage

#: Marks items that are packed.
TAG = b"*"
#: Fewer are written one by one.
_MIN_ITEMS = 16
_LENGTH_BYTES = array.array("I").itemsize
_NUMBER_BYTES = 8
#: The type code of a block in the machine's own order, by the items' exact type.
_NUMBERS = {int: "q", float: "d"}


def pack(items: Collection[Any]) -> tuple[bytes, ...] | None:
    """Return the parts of a block; None if the items are few, mixed, or of another type."""
    if len(items) < _MIN_ITEMS:
        return None
    kinds = set(map(type, items))
    kind = kinds.pop()
    if kinds:
        return None
    if kind is str:
        text = "".join(items).encode("utf-8", "surrogatepass")
        lengths = array.array("I", map(len, items)).tobytes()
        return b"s", lengths, array.array("Q", [len(text)]).tobytes(), text
    code = _NUMBERS.get(kind)
    if code is None:
        return None
    try:
        return code.encode(), array.array(code, items).tobytes()
    except OverflowError:  # a number that takes more than eight bytes
        return None


def unpack(code: bytes, count: int, take: Callable[[int], bytes]) -> list[Any]:
    """Return the `count` items of a block. `take` gives the next bytes of the message.

    Raises:
        MalformedMessage: `pack` has not written the block.
    """
    if code in (b"q", b"d"):
        return array.array(code.decode(), take(count * _NUMBER_BYTES)).tolist()
    if code != b"s":
        raise MalformedMessage("an unknown block")
    ends = list(itertools.accumulate(array.array("I", take(count * _LENGTH_BYTES))))
    (num_bytes,) = array.array("Q", take(_NUMBER_BYTES))
    text = take(num_bytes).decode("utf-8", "surrogatepass")
    if ends[-1] != len(text):
        raise MalformedMessage("not the lengths of a text's parts")
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
