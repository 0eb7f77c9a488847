"""Decompression of answers from servers that compress without being asked."""

import zlib

#: Window sizes for `zlib.decompressobj`; 47 lets zlib detect the format from the first bytes.
_WINDOWS = {"gzip": 47, "x-gzip": 47, "deflate": 47}
#: A gzip body may have several members. The limit bounds the copies of the rest after each.
_MAX_MEMBERS = 64


class Uninflatable(Exception):
    """A body in an unsupported coding, damaged, or over the limit when unpacked."""


def inflate(content: bytes, coding: str, max_bytes: int) -> bytes:
    """Return the decompressed body.

    Raises:
        Uninflatable: the body cannot be decompressed, or is larger than `max_bytes`; unpacking
            stops there.
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
