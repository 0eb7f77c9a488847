"""The trainer's side of a transfer."""

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from . import cuda_ipc
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
    make_group,
    open_store,
    within_meeting,
)
from .packing import pack

TensorOf = Callable[[str], torch.Tensor]
_ENGINE = "the engine"
#: Two, so that a bucket is packed while another is sent.
_NUM_BUFFERS = 2


class Sender:
    """Sender of weights with its own store; keep it for later versions until a transfer fails."""

    def __init__(self, transport: str, host: str, num_workers: int, device: torch.device) -> None:
        """Open the store on `host`. `transport` is nccl, ipc or gloo; `device` has the weights."""
        self._transport = transport
        self._device = torch.device("cpu") if transport == "gloo" else device
        self._num_workers = num_workers
        self._group: Any = None
        port, store = open_store(host)
        self.meeting = Meeting(host, port, secrets.token_hex(16))
        self._store = within_meeting(store, self.meeting)

    def send(
        self,
        announcement: int,
        buckets: Sequence[Bucket],
        tensor_of: TensorOf,
        waiting: Limit,
        limit_s: float,
    ) -> None:
        """Send all buckets to all workers, and wait until they arrive. Keep the weights unchanged.

        Args:
            announcement: a unique number of this call, known to the workers.
            waiting: time limit for the workers to get ready.
            limit_s: time limit of the transfer after that.

        Raises:
            TransferFailed: a worker does not get ready, or does not receive everything in time.
                This sender cannot be used again then.
        """
        self._await_all(f"ready/{announcement}", waiting)
        limit = waiting.renewed(limit_s)
        if self._transport == "ipc":
            self._lend(announcement, buckets, tensor_of, limit)
        else:
            self._broadcast(announcement, buckets, tensor_of, limit)

    def close(self) -> None:
        """Tell the workers that nothing more comes, so that waiting workers stop waiting."""
        with suppress(RuntimeError):  # the store may be gone already
            self._store.set(OVER, "")
        self._leave()

    def _leave(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            close_group(group)

    @property
    def _ranks(self) -> range:
        return range(1, self._num_workers + 1)

    def _await_all(self, key: str, limit: Limit) -> None:
        """Wait until every worker has set its own `key`."""
        for rank in self._ranks:
            own, who = f"{key}/{rank}", _ENGINE
            if self._num_workers > 1:
                who += f"'s worker {rank} of {self._num_workers}"
            limit.wait_until(lambda own=own: has_key(self._store, own, _ENGINE), who)  # type: ignore[misc]

    def _meet(self, announcement: int, limit: Limit) -> None:
        """Make a group with the workers if they left it, for example to join another trainer."""
        states = {self._store.get(f"ready/{announcement}/{r}").decode() for r in self._ranks}
        if states == {KEPT} and self._group is not None:
            return
        if states != {NEW}:
            raise TransferFailed("some of the engine's workers left the group, and some did not")
        self._leave()
        store = group_store(self._store, announcement)
        arguments = (self._transport, store, 0, self._num_workers + 1)
        self._group = limit.within(
            lambda: make_group(*arguments, self.meeting.host, self._device),
            "the group with the engine",
        )

    def _broadcast(
        self, announcement: int, buckets: Sequence[Bucket], tensor_of: TensorOf, limit: Limit
    ) -> None:
        self._meet(announcement, limit)
        under_way: deque[Any] = deque()
        for bucket in buckets:
            buffer = torch.empty(bucket.num_bytes, dtype=torch.uint8, device=self._device)
            pack(bucket, tensor_of, buffer)
            under_way.append((broadcast(self._group, buffer, limit), buffer))
            if len(under_way) == _NUM_BUFFERS:
                finish(under_way.popleft()[0], limit, _ENGINE)
        for work, _ in under_way:
            finish(work, limit, _ENGINE)

    def _lend(
        self, announcement: int, buckets: Sequence[Bucket], tensor_of: TensorOf, limit: Limit
    ) -> None:
        cuda_ipc.release_closed()  # those of the last version
        size = max(bucket.num_bytes for bucket in buckets)
        buffers = [
            torch.empty(size, dtype=torch.uint8, device=self._device)
            for _ in range(min(_NUM_BUFFERS, len(buckets)))
        ]
        for index, buffer in enumerate(buffers):
            for rank in self._ranks:
                handle = cuda_ipc.export(buffer)
                self._store.set(f"handle/{announcement}/{index}/{rank}", handle)
        for index, bucket in enumerate(buckets):
            if index >= len(buffers):
                self._await_all(f"free/{announcement}/{index - len(buffers)}", limit)
            pack(bucket, tensor_of, buffers[index % len(buffers)])
            cuda_ipc.settle(self._device)
            self._store.set(f"full/{announcement}/{index}", "")
        for index in range(len(buckets) - len(buffers), len(buckets)):
            self._await_all(f"free/{announcement}/{index}", limit)
