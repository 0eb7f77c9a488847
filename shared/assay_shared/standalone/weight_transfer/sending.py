"""The trainer's end of a transfer."""

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .cuda_ipc import export
from .limit import Limit
from .manifest import Bucket
from .meeting import (
    Meeting,
    broadcast,
    close_group,
    finish,
    has_key,
    make_group,
    open_store,
    within_meeting,
)
from .packing import pack

TensorOf = Callable[[str], torch.Tensor]
_ENGINE = "the engine"
#: One is packed while the other travels.
_NUM_BUFFERS = 2


class Sender:
    """Waits for the workers at a place of its own. Kept for later versions until one fails."""

    def __init__(self, transport: str, host: str, num_workers: int, device: torch.device) -> None:
        """`transport`: nccl, ipc or gloo. `device`: where the weights are."""
        self._transport = transport
        self._device = torch.device("cpu") if transport == "gloo" else device
        self._num_workers = num_workers
        self._group: Any = None
        port, store = open_store(host)
        self.meeting = Meeting(host, port, secrets.token_hex(16))
        self._store = within_meeting(store, self.meeting)

    def send(
        self,
        version: int,
        buckets: Sequence[Bucket],
        tensor_of: TensorOf,
        waiting: Limit,
        limit_s: float,
    ) -> None:
        """Return when all workers have all of it. The weights may not change meanwhile.

        Args:
            waiting: how long they may take to come.
            limit_s: how long it may take from then on.

        Raises:
            TransferFailed: they do not; this sender is of no more use.
        """
        for rank in range(1, self._num_workers + 1):
            self._await(f"ready/{version}/{rank}", waiting)
        limit = waiting.renewed(limit_s)
        if self._transport == "ipc":
            self._lend(version, buckets, tensor_of, limit)
        else:
            self._broadcast(buckets, tensor_of, limit)

    def close(self) -> None:
        """Whoever waits for this end learns that nothing more comes."""
        group, self._group = self._group, None
        if group is not None:
            close_group(group)

    def _await(self, key: str, limit: Limit) -> None:
        limit.wait_until(lambda: has_key(self._store, key, _ENGINE), _ENGINE)

    def _broadcast(self, buckets: Sequence[Bucket], tensor_of: TensorOf, limit: Limit) -> None:
        if self._group is None:
            arguments = (self._transport, self._store, 0, self._num_workers + 1)
            self._group = limit.within(
                lambda: make_group(*arguments, self.meeting.host, self._device),
                "the group with the engine",
            )
        under_way: deque[Any] = deque()
        for bucket in buckets:
            buffer = torch.empty(bucket.num_bytes, dtype=torch.uint8, device=self._device)
            pack(bucket, tensor_of, buffer)
            under_way.append((broadcast(self._group, buffer), buffer))
            if len(under_way) == _NUM_BUFFERS:
                finish(under_way.popleft()[0], limit, _ENGINE)
        for work, _ in under_way:
            finish(work, limit, _ENGINE)

    def _lend(
        self, version: int, buckets: Sequence[Bucket], tensor_of: TensorOf, limit: Limit
    ) -> None:
        torch.cuda.ipc_collect()  # what the worker has let go of since the last version
        size = max(bucket.num_bytes for bucket in buckets)
        buffers = [
            torch.empty(size, dtype=torch.uint8, device=self._device)
            for _ in range(min(_NUM_BUFFERS, len(buckets)))
        ]
        for index, buffer in enumerate(buffers):
            self._store.set(f"handle/{version}/{index}", export(buffer))
        for index, bucket in enumerate(buckets):
            if index >= len(buffers):
                self._await(f"free/{version}/{index - len(buffers)}", limit)
            pack(bucket, tensor_of, buffers[index % len(buffers)])
            torch.cuda.synchronize(self._device)
            self._store.set(f"full/{version}/{index}", "")
        for index in range(len(buckets) - len(buffers), len(buckets)):
            self._await(f"free/{version}/{index}", limit)
