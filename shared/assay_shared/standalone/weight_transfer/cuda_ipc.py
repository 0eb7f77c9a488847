"""Shares a GPU buffer with other processes on the same GPU; its handle is JSON, not a pickle."""

import base64
import json

import torch


def export(buffer: torch.Tensor) -> str:
    """Return a handle of a flat uint8 GPU tensor, for one process; keep the tensor until it closes.

    torch counts the openings of each handle, and expects one: export once for each process.
    """
    from torch.multiprocessing.reductions import reduce_tensor

    _, arguments = reduce_tensor(buffer)
    return json.dumps([_encoded(argument) for argument in arguments[7:]])


def open_buffer(exported: str, num_bytes: int, device: torch.device) -> torch.Tensor:
    """Return a tensor on another process's buffer.

    The buffer stays open until the tensor and all its views are gone.
    """
    from torch.multiprocessing.reductions import rebuild_cuda_tensor

    arguments = [_decoded(argument) for argument in json.loads(exported)]
    buffer: torch.Tensor = rebuild_cuda_tensor(
        *(torch.Tensor, (num_bytes,), (1,), 0, torch.storage.TypedStorage, torch.uint8),
        device.index or 0,
        *arguments,
    )
    return buffer


def release_closed() -> None:
    """Free this process's buffers that all others have closed."""
    torch.cuda.ipc_collect()


def settle(device: torch.device) -> None:
    """Return once the device has finished all work of this process."""
    torch.cuda.synchronize(device)


def _encoded(argument: object) -> object:
    if isinstance(argument, bytes):
        return {"base64": base64.b64encode(argument).decode()}
    return argument


def _decoded(argument: object) -> object:
    if isinstance(argument, dict):
        return base64.b64decode(argument["base64"])
    return argument
