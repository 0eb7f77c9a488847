"""What a transfer carries, and how it is cut into buckets. Both sides work it out by themselves."""

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
#: Slots begin at a multiple of this, so that any dtype can be read in place.
ALIGNMENT_BYTES = 256


class ManifestEntry(NamedTuple):
    """One tensor: `dtype` as torch names it, `fingerprint` in 16 hexadecimal digits."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    fingerprint: str

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


class BucketSlot(NamedTuple):
    """Where a tensor lies in its bucket."""

    entry: ManifestEntry
    start: int


class Bucket(NamedTuple):
    """Tensors that travel together."""

    slots: tuple[BucketSlot, ...]
    num_bytes: int


def digest_of(entries: Sequence[ManifestEntry]) -> str:
    """SHA-256 over names, types, shapes and fingerprints, in the order of the names."""
    whole = hashlib.sha256()
    for name, shape, dtype, fingerprint in sorted(entries):
        whole.update(f"{name} {dtype} {','.join(map(str, shape))} {fingerprint}\n".encode())
    return whole.hexdigest()


def plan_buckets(entries: Sequence[ManifestEntry], bucket_bytes: int) -> list[Bucket]:
    """In the given order, as few as `bucket_bytes` allows. A tensor is never cut: one that is
    larger than that has a bucket to itself."""
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
