"""Differences of chunks: exact for any bytes, small for small steps, never larger than said."""

import random
import zlib

import numpy as np
import pytest

from assay_shared.weights import delta


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 4096, 4099])
def test_what_is_encoded_is_decoded(length: int) -> None:
    drawn = random.Random(length)
    chunk, base = drawn.randbytes(length), drawn.randbytes(length)
    assert delta.decode(delta.encode(chunk, base), base) == chunk


def test_a_small_step_of_float32_leaves_the_upper_bytes_out() -> None:
    drawn = np.random.default_rng(0)
    before = drawn.normal(0, 0.02, 100_000).astype(np.float32)
    after = before + np.float32(1e-6) * drawn.normal(0, 1, 100_000).astype(np.float32)
    encoded = delta.encode(after.tobytes(), before.tobytes())
    assert len(encoded) < 0.5 * after.nbytes
    assert len(delta.encode(before.tobytes(), before.tobytes())) < 0.01 * before.nbytes


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"garbage",
        zlib.compress(bytes(7)),
        zlib.compress(bytes(9)),
        zlib.compress(bytes(2**20)),
        zlib.compress(bytes(8))[:-4],
    ],
)
def test_what_is_no_difference_of_this_length_is_refused(encoded: bytes) -> None:
    with pytest.raises(ValueError, match="it cannot be inflated|it is not a difference of 8 bytes"):
        delta.decode(encoded, bytes(8))
