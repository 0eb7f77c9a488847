"""Chunks of weights as differences from those before: exclusive or, then compressed.

An update with a small learning rate leaves most entries of bf16 as they were, and of fp32 the upper
bytes: their exclusive or is 0 there. Bytes are sorted by their place within four, so that those
zeros stand together.
"""

import zlib

import numpy as np
import numpy.typing as npt

_PLACES = 4
_LEVEL = 1
Bytes = npt.NDArray[np.uint8]


def encode(chunk: bytes, base: bytes) -> bytes:
    """What `decode` makes `chunk` of; both have one length."""
    different = np.frombuffer(chunk, np.uint8) ^ np.frombuffer(base, np.uint8)
    whole = len(different) // _PLACES * _PLACES
    sorted_bytes = different[:whole].reshape(-1, _PLACES).T.tobytes() + different[whole:].tobytes()
    return zlib.compress(sorted_bytes, _LEVEL)


def decode(encoded: bytes, base: bytes) -> bytes:
    """The chunk.

    Raises:
        ValueError: it is no difference from a chunk of this length.
    """
    inflating = zlib.decompressobj()
    try:
        inflated = inflating.decompress(encoded, len(base) + 1)
    except zlib.error as error:
        raise ValueError(f"it cannot be inflated: {error}") from error
    if len(inflated) != len(base) or not inflating.eof:
        raise ValueError(f"it is no difference of {len(base)} bytes")
    flat = np.frombuffer(inflated, np.uint8)
    whole = len(flat) // _PLACES * _PLACES
    different: Bytes = np.empty_like(flat)
    different[:whole] = flat[:whole].reshape(_PLACES, -1).T.reshape(-1)
    different[whole:] = flat[whole:]
    return bytes((different ^ np.frombuffer(base, np.uint8)).tobytes())
