"""A buffer of one process, opened by another on the same GPU. Sent as JSON, not as a pickle."""

import base64
import json

import torch


def export(buffer: torch.Tensor) -> str:
    """Of a flat uint8 tensor on a GPU, which has to live until all have closed it."""
    from torch.multiprocessing.reductions import reduce_tensor

    _, arguments = reduce_tensor(buffer)
    return json.dumps([_encoded(argument) for argument in arguments[7:]])


def open_buffer(exported: str, num_bytes: int, device: torch.device) -> torch.Tensor:
    """The same memory here. It stays open until the tensor and all its views are gone."""
    from torch.multiprocessing.reductions import rebuild_cuda_tensor

    arguments = [_decoded(argument) for argument in json.loads(exported)]
    buffer: torch.Tensor = rebuild_cuda_tensor(
        *(torch.Tensor, (num_bytes,), (1,), 0, torch.storage.TypedStorage, torch.uint8),
        device.index or 0,
        *arguments,
    )
    return buffer


def _encoded(argument: object) -> object:
    if isinstance(argument, bytes):
        return {"base64": base64.b64encode(argument).decode()}
    return argument


def _decoded(argument: object) -> object:
    if isinstance(argument, dict):
        return base64.b64decode(argument["base64"])
    return argument
