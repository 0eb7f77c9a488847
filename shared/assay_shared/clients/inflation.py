"""Bodies that a server has compressed although it was asked not to."""

import zlib

#: As `zlib.decompressobj` takes them: the format is told by the first bytes.
_WINDOWS = {"gzip": 47, "x-gzip": 47, "deflate": 47}
#: A gzip body may be several, one after the other. What follows each is copied.
_MAX_MEMBERS = 64


class Uninflatable(Exception):
    """A body in a coding that is not read, that is damaged, or that unpacks to too much."""


def inflate(content: bytes, coding: str, max_bytes: int) -> bytes:
    """Return the body as it was before it was compressed.

    Raises:
        Uninflatable: it cannot be read, or is over `max_bytes`, of which no more are unpacked.
    """
    name = coding.strip().lower()
    if name in ("", "identity") or not content:
        return content
    if name not in _WINDOWS:
        raise Uninflatable(f"the coding {name[:40]!r} is not read")
    unpacked = bytearray()
    for _ in range(_MAX_MEMBERS):
        unpacker = zlib.decompressobj(_WINDOWS[name])
        try:
            unpacked += unpacker.decompress(content, max_bytes - len(unpacked) + 1)
        except zlib.error as error:
            raise Uninflatable(f"a damaged {name} body: {error}") from None
        if unpacker.unconsumed_tail or len(unpacked) > max_bytes:
            raise Uninflatable(f"over {max_bytes} bytes when unpacked")
        if not unpacker.eof:
            raise Uninflatable(f"a {name} body that is cut off")
        content = unpacker.unused_data
        if not content:
            return bytes(unpacked)
    raise Uninflatable(f"a {name} body of more than {_MAX_MEMBERS} parts")
