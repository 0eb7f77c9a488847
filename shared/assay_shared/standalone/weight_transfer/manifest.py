"""Manifest of a transfer, and its division into buckets; each side computes the same buckets."""

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
#: Slots begin at a multiple of this, so that a tensor of any dtype can be read in place.
ALIGNMENT_BYTES = 256


class ManifestEntry(NamedTuple):
    """A tensor of a transfer: `dtype` in torch's name, `fingerprint` in 16 hexadecimal digits."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    fingerprint: str

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


class BucketSlot(NamedTuple):
    """Place of a tensor in its bucket."""

    entry: ManifestEntry
    start: int


class Bucket(NamedTuple):
    """Tensors sent together."""

    slots: tuple[BucketSlot, ...]
    num_bytes: int


def digest_of(entries: Sequence[ManifestEntry]) -> str:
    """Return the SHA-256 over names, types, shapes and fingerprints, in the order of names."""
    whole = hashlib.sha256()
    for name, shape, dtype, fingerprint in sorted(entries):
        whole.update(f"{name} {dtype} {','.join(map(str, shape))} {fingerprint}\n".encode())
    return whole.hexdigest()


def plan_buckets(entries: Sequence[ManifestEntry], bucket_bytes: int) -> list[Bucket]:
    """Return the buckets of `entries`, in the given order and filled up to `bucket_bytes`.

    A tensor is never cut; a tensor larger than `bucket_bytes` has a bucket for itself.
    """
    buckets: list[Bucket] = []
    slots: list[BucketSlot] = []
    end = 0
    for entry in entries:
        if slots and end + entry.num_bytes > bucket_bytes:
            buckets.append(Bucket(tuple(slots), end))
            slots, end = [], 0
        slots.append(BucketSlot(entry, end))
        end += -(-entry.num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    if slots:
        buckets.append(Bucket(tuple(slots), end))
    return buckets
