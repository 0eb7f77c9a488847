"""Writes a model's weights as safetensors files, several files at once.

The library's writer never releases the interpreter, so it writes file after file: 16 s for 15 GB
into memory. Here each thread copies, hashes and writes without the interpreter.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import split_torch_state_dict_into_shards
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from assay_shared.errors import InvalidInput
from assay_shared.weights.safetensors import DTYPES, write_header
from assay_trainer.weights.adapter import whole_state
from assay_trainer.weights.served_dtype import as_served, served_dtype

_SHARD_SIZE = "500MB"
_MAX_THREADS = 32
#: What a thread keeps of a GPU's memory in the host's, pinned.
_PIECE_BYTES = 32 << 20
_NAMES = {getattr(torch, dtype): name for name, dtype in DTYPES.items()}


def save_model(model: PreTrainedModel, folder: Path) -> dict[str, str]:
    """Write config.json, generation_config.json, the weights and their index, in the served type.

    Returns:
        The SHA-256 of each weight file by its name, computed from the tensors in memory.

    Raises:
        InvalidInput: a tensor has a type unknown to safetensors.
    """
    model.save_pretrained(folder, state_dict={})  # all but the weights
    _name_dtype(folder / "config.json", served_dtype(model))
    tensors = revert_weight_conversion(model, as_served(model, named_weights(model)))
    plan = split_torch_state_dict_into_shards(tensors, max_shard_size=_SHARD_SIZE)
    if plan.is_sharded:
        index = {"metadata": plan.metadata, "weight_map": plan.tensor_to_filename}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    with ThreadPoolExecutor(_MAX_THREADS, "shards") as pool:
        digests = pool.map(
            lambda name: _write(folder / name, plan.filename_to_tensors[name], tensors),
            plan.filename_to_tensors,
        )
        return dict(zip(plan.filename_to_tensors, digests, strict=True))


def _name_dtype(file: Path, dtype: torch.dtype) -> None:
    """Write the type of the weights; the library writes that of the model in memory."""
    config = json.loads(file.read_text())
    if config.get("quantization_config", {}).get("quant_method") == "bitsandbytes":
        del config["quantization_config"]  # they are written as they were before
    config["dtype"] = str(dtype).removeprefix("torch.")
    file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def named_weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return the weights by the base model's names, with the adapter merged and no tied copies."""
    found: dict[tuple[Any, ...], str] = {}
    weights = {}
    for name, tensor in whole_state(model).items():
        place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape)
        if found.setdefault(place, name) == name:
            weights[name] = tensor.detach()
    return weights


def _write(file: Path, names: list[str], tensors: Mapping[str, torch.Tensor]) -> str:
    """Write a file and return its SHA-256."""
    # The widest entries first: each then lies at a multiple of its width.
    names = sorted(names, key=lambda name: (-tensors[name].itemsize, name))
    digest = hashlib.sha256()
    with file.open("wb") as out:
        for piece in _pieces({name: tensors[name] for name in names}):
            digest.update(piece)
            out.write(piece)
    return digest.hexdigest()


def _pieces(tensors: Mapping[str, torch.Tensor]) -> Iterator[memoryview | bytes]:
    """Yield a file's bytes, in order."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise InvalidInput(f"{name}: safetensors keeps no {tensor.dtype}")
    yield write_header({n: (_NAMES[t.dtype], tuple(t.shape)) for n, t in tensors.items()})
    for tensor in tensors.values():
        yield from _bytes_of(tensor)


def _bytes_of(tensor: torch.Tensor) -> Iterator[memoryview]:
    """Yield a tensor's bytes; a piece is valid until the next."""
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    if not flat.is_cuda:
        yield flat.numpy().data
        return
    buffer = torch.empty(min(_PIECE_BYTES, flat.numel()), dtype=torch.uint8, pin_memory=True)
    for begin in range(0, flat.numel(), _PIECE_BYTES):
        piece = flat[begin : begin + _PIECE_BYTES]
        buffer[: piece.numel()].copy_(piece)
        yield buffer.numpy().data[: piece.numel()]
