"""Chunks of weights as differences from the previous version: exclusive or, then compressed.

An update with a small learning rate leaves most bf16 entries unchanged, and the upper bytes of most
fp32 entries: the exclusive or of unchanged bytes is 0. Bytes are sorted by their place within four,
so the zeros stand together.
"""

import zlib

import numpy as np
import numpy.typing as npt

_PLACES = 4
_LEVEL = 1
Bytes = npt.NDArray[np.uint8]


def encode(chunk: bytes, base: bytes) -> bytes:
    """Return the compressed difference of `chunk` from `base`; both have the same length.

    `decode` restores `chunk` from it.
    """
    different = np.frombuffer(chunk, np.uint8) ^ np.frombuffer(base, np.uint8)
    whole = len(different) // _PLACES * _PLACES
    sorted_bytes = different[:whole].reshape(-1, _PLACES).T.tobytes() + different[whole:].tobytes()
    return zlib.compress(sorted_bytes, _LEVEL)


def decode(encoded: bytes, base: bytes) -> bytes:
    """Return the chunk, from its difference and `base`.

    Raises:
        ValueError: `encoded` is not a difference from a chunk of the length of `base`.
    """
    inflating = zlib.decompressobj()
    try:
        inflated = inflating.decompress(encoded, len(base) + 1)
    except zlib.error as error:
        raise ValueError(f"it cannot be inflated: {error}") from error
    if len(inflated) != len(base) or not inflating.eof:
        raise ValueError(f"it is not a difference of {len(base)} bytes")
    flat = np.frombuffer(inflated, np.uint8)
    whole = len(flat) // _PLACES * _PLACES
    different: Bytes = np.empty_like(flat)
    different[:whole] = flat[:whole].reshape(_PLACES, -1).T.reshape(-1)
    different[whole:] = flat[whole:]
    return bytes((different ^ np.frombuffer(base, np.uint8)).tobytes())
