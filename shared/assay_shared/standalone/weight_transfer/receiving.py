"""A worker's side of a transfer."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from . import cuda_ipc
from .fingerprint import as_text, fingerprints
from .limit import Limit, TransferFailed
from .manifest import Bucket
from .meeting import (
    KEPT,
    NEW,
    OVER,
    Meeting,
    broadcast,
    close_group,
    finish,
    group_store,
    has_key,
    join_store,
    make_group,
    own_address,
)
from .packing import view

_TRAINER = "the trainer"
#: Two, so that a bucket arrives while another is loaded.
_NUM_BUFFERS = 2


class Receiver:
    """Receiver of a trainer's weights; keep it for later versions until a transfer fails."""

    def __init__(
        self, transport: str, meeting: Meeting, rank: int, size: int, device: torch.device
    ) -> None:
        """Store the place of this worker: its `rank` counts from 1, `size` includes the trainer."""
        self.meeting = meeting
        self.place = rank, size
        self._transport = transport
        self._rank, self._size = rank, size
        self._device = torch.device("cpu") if transport == "gloo" else device
        self._store: Any = None
        self._group: Any = None

    def receive(
        self, announcement: int, buckets: Sequence[Bucket], limit: Limit, *, keep: bool
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the name and content of each tensor, after checking its fingerprint.

        Args:
            announcement: the trainer's number of this transfer.
            keep: without it, use each tensor before requesting the next; its memory may be reused.

        Raises:
            TransferFailed: a tensor does not arrive in time, or differs from the trainer's. Close
                the receiver then.
        """
        if self._store is None:
            self._store = join_store(self.meeting, limit)
        self._say(f"ready/{announcement}/{self._rank}", NEW if self._group is None else KEPT)
        if self._transport == "ipc":
            arrivals = self._borrowed(announcement, buckets, limit, keep)
        else:
            arrivals = self._broadcast(announcement, buckets, limit)
        for bucket, buffer in arrivals:
            tensors = [view(buffer, slot) for slot in bucket.slots]
            found = fingerprints((tensor, 0, 0) for tensor in tensors)
            for slot, tensor, value in zip(bucket.slots, tensors, found, strict=True):
                if as_text(value) != slot.entry.fingerprint:
                    raise TransferFailed(f"{slot.entry.name} did not arrive as it was sent")
                yield slot.entry.name, tensor
            del buffer, tensors, tensor

    def close(self) -> None:
        group, self._group, self._store = self._group, None, None
        if group is not None:
            close_group(group)

    def _broadcast(
        self, announcement: int, buckets: Sequence[Bucket], limit: Limit
    ) -> Iterator[tuple[Bucket, torch.Tensor]]:
        if self._group is None:
            host, store = own_address(self.meeting), group_store(self._store, announcement)
            arguments = (self._transport, store, self._rank, self._size, host, self._device)
            self._group = limit.within(lambda: make_group(*arguments), "the group with the trainer")
        under_way: deque[tuple[Bucket, torch.Tensor, Any]] = deque()
        for bucket in buckets:
            buffer = torch.empty(bucket.num_bytes, dtype=torch.uint8, device=self._device)
            under_way.append((bucket, buffer, broadcast(self._group, buffer, limit)))
            del buffer
            if len(under_way) == _NUM_BUFFERS:
                yield self._arrived(*under_way.popleft(), limit)
        while under_way:
            yield self._arrived(*under_way.popleft(), limit)

    def _arrived(
        self, bucket: Bucket, buffer: torch.Tensor, work: Any, limit: Limit
    ) -> tuple[Bucket, torch.Tensor]:
        finish(work, limit, _TRAINER)
        return bucket, buffer

    def _borrowed(
        self, announcement: int, buckets: Sequence[Bucket], limit: Limit, keep: bool
    ) -> Iterator[tuple[Bucket, torch.Tensor]]:
        size = max(bucket.num_bytes for bucket in buckets)
        buffers = []
        for index in range(min(_NUM_BUFFERS, len(buckets))):
            key = f"handle/{announcement}/{index}/{self._rank}"
            self._await(key, limit)
            exported = self._store.get(key).decode()
            buffers.append(cuda_ipc.open_buffer(exported, size, self._device))
        for index, bucket in enumerate(buckets):
            self._await(f"full/{announcement}/{index}", limit)
            buffer = buffers[index % len(buffers)]
            yield bucket, buffer.clone() if keep else buffer
            cuda_ipc.settle(self._device)
            self._say(f"free/{announcement}/{index}/{self._rank}")

    def _await(self, key: str, limit: Limit) -> None:
        def has_come() -> bool:
            if has_key(self._store, key, _TRAINER):
                return True
            if has_key(self._store, OVER, _TRAINER):
                raise TransferFailed("the trainer gave the transfer up")
            return False

        limit.wait_until(has_come, _TRAINER)

    def _say(self, key: str, what: str = "") -> None:
        try:
            self._store.set(key, what)
        except RuntimeError as error:
            raise TransferFailed("the trainer is gone") from error
