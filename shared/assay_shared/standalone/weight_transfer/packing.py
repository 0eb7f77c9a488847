"""Tensors into a bucket's bytes, and out of them."""

from collections.abc import Callable

import torch

from .manifest import Bucket, BucketSlot


def pack(bucket: Bucket, tensor_of: Callable[[str], torch.Tensor], buffer: torch.Tensor) -> None:
    """Copy each tensor to its slot, in the type that the manifest gives it."""
    for slot in bucket.slots:
        view(buffer, slot).copy_(tensor_of(slot.entry.name).detach())


def view(buffer: torch.Tensor, slot: BucketSlot) -> torch.Tensor:
    """The slot's tensor; it shares the buffer's memory."""
    entry = slot.entry
    one = buffer[slot.start : slot.start + entry.num_bytes]
    dtype: torch.dtype = getattr(torch, entry.dtype)
    return one.view(dtype).view(entry.shape)
