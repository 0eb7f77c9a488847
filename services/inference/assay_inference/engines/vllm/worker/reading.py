"""A checkpoint's tensors from its files onto a GPU, read by several threads ahead of their use."""

import math
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch

_MAX_THREADS = 16
#: Each thread's buffer in the host's memory, pinned.
_PIECE_BYTES = 32 << 20
#: On the GPU with the model, unless one tensor alone is larger.
_MAX_AHEAD_BYTES = 1 << 30


class StoredTensor(NamedTuple):
    """A tensor in a file, from byte `start` on."""

    name: str
    file: str
    start: int
    dtype: str
    shape: Sequence[int]

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.torch_dtype.itemsize


def read(
    stored: Sequence[StoredTensor], device: torch.device
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor on `device`, in the given order.

    Raises:
        OSError: a file cannot be read, or ends before its tensor does.
    """
    waiting: deque[tuple[StoredTensor, Future[torch.Tensor]]] = deque()
    with ThreadPoolExecutor(_MAX_THREADS, "reading") as pool:
        try:
            ahead = 0
            for one in stored:
                while waiting and ahead + one.num_bytes > _MAX_AHEAD_BYTES:
                    ahead -= waiting[0][0].num_bytes
                    yield _arrived(waiting)
                waiting.append((one, pool.submit(_read, one, device)))
                ahead += one.num_bytes
            while waiting:
                yield _arrived(waiting)
        finally:
            for _, future in waiting:
                future.cancel()


def _arrived(
    waiting: deque[tuple[StoredTensor, "Future[torch.Tensor]"]],
) -> tuple[str, torch.Tensor]:
    one, future = waiting.popleft()
    return one.name, future.result()


def _read(stored: StoredTensor, device: torch.device) -> torch.Tensor:
    tensor = torch.empty(tuple(stored.shape), dtype=stored.torch_dtype, device=device)
    flat = tensor.reshape(-1).view(torch.uint8)
    size = min(_PIECE_BYTES, flat.numel())
    buffer = torch.empty(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
    with Path(stored.file).open("rb", buffering=0) as file:
        for begin in range(0, flat.numel(), _PIECE_BYTES):
            piece = buffer[: min(_PIECE_BYTES, flat.numel() - begin)]
            _fill(piece, file.fileno(), stored.start + begin)
            flat[begin : begin + piece.numel()].copy_(piece)
    return tensor


def _fill(piece: torch.Tensor, descriptor: int, offset: int) -> None:
    view, done = piece.numpy().data, 0
    while done < len(view):
        num = os.preadv(descriptor, [view[done:]], offset + done)
        if num == 0:
            raise OSError(f"the file ends at byte {offset + done}")
        done += num
