"""Packs tensors into the bytes of a bucket, and reads them there."""

from collections.abc import Callable

import torch

from .manifest import Bucket, BucketSlot


def pack(bucket: Bucket, tensor_of: Callable[[str], torch.Tensor], buffer: torch.Tensor) -> None:
    """Copy each tensor to its slot, in the dtype of the manifest."""
    for slot in bucket.slots:
        view(buffer, slot).copy_(tensor_of(slot.entry.name).detach())


def view(buffer: torch.Tensor, slot: BucketSlot) -> torch.Tensor:
    """Return the slot's tensor; it shares the buffer's memory."""
    entry = slot.entry
    one = buffer[slot.start : slot.start + entry.num_bytes]
    dtype: torch.dtype = getattr(torch, entry.dtype)
    return one.view(dtype).view(entry.shape)
